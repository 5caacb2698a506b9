"""A model verified, packed rows included: :mod:`posenc.architectures.verify` asks how they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from posenc.architectures.verify import Verification, verify
from posenc.capture.capture import packed_row
from posenc.models import schemes


def verified(model: nn.Module, documents: Sequence[Sequence[int]] = ()) -> Verification | None:
    """Compare a model with the library's own run of it; what holds is noted with the model.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, or of the library.
    documents
        Token ids of some texts; by default some that are made up.

    Returns
    -------
    None for a decoder that is told positions in a way that the library does not have.

    Raises
    ------
    ArchitectureError
        As :func:`posenc.architectures.verify.verify`.
    """
    if getattr(model.config, schemes.KEY, "learned") in schemes.IN_ATTENTION:
        return None
    return verify(model, documents, _row)


def _row(model: nn.Module, documents: list[list[int]]) -> Any:
    return packed_row(model, documents, output_hidden_states=True)
