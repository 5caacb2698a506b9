"""The documents that a decoder learns from, and those held out of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc.datasets.documents import read_documents
from posenc.models.section import Corpus

if TYPE_CHECKING:
    import pyarrow as pa


def training_documents(path: Path, corpus: Corpus) -> tuple[pa.Table, pa.Table]:
    """Draw the training documents of a split and hold some out, by the model's seed.

    Parameters
    ----------
    path
        Documents of the data set.
    corpus
        ``split``, ``documents``, ``validation_share`` and ``seed`` are read.

    Returns
    -------
    training, validation
        In random order; at least one document each.
    """
    table = read_documents(path, split=corpus.split, columns=["document_id", "text"])
    order = np.random.default_rng(corpus.seed).permutation(len(table))  # [documents]
    order = order[: corpus.documents]
    held_out = max(1, round(corpus.validation_share * len(order)))
    return table.take(order[held_out:]), table.take(order[:held_out])
