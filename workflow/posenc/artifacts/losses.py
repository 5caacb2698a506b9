"""Losses of documents, as stores of activations and evaluations keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


class Losses:
    """The losses of a table with one row a document.

    Parameters
    ----------
    table
        Columns ``document_id``, ``nll`` (list of float32, nats) and ``bytes`` (UTF-8 bytes of the
        scored text, null where they are not known).

    Attributes
    ----------
    document_id
        Identifiers, in order.
    token_nll
        float32 [all tokens]: negative log-likelihood of each scored token, nats.
    nll
        float64 [documents]: its sum over the tokens of each document, nats.
    tokens, utf8_bytes
        int64 [documents]: number of scored tokens, and UTF-8 bytes of their text.
    """

    def __init__(self, table: pa.Table) -> None:
        import pyarrow.compute as pc

        self.document_id = table["document_id"]
        self.token_nll = pc.list_flatten(table["nll"]).to_numpy()  # [all tokens]
        self.tokens = pc.list_value_length(table["nll"]).to_numpy().astype(np.int64)  # [documents]
        self.utf8_bytes = table["bytes"].to_numpy()  # [documents]
        document = np.repeat(np.arange(len(self.tokens)), self.tokens)  # [all tokens]
        self.nll = np.bincount(document, self.token_nll, minlength=len(self.tokens))  # [documents]
