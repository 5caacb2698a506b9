"""Attention whose queries and keys keep some frequencies along the sequence, or lose them (C2).

A decoder's query sees the keys of its prefix. They are projected as a signal that ends there, and
the query as the last of its own (:mod:`posenc.metrics.band_projections`): nothing of a later token
reaches it. Each query thus has keys of its own. But what projects the keys k_j, j <= i, acts alike
on the scores q k_j, so that the row of scores is filtered in their place.

Queries and keys are those that meet in the scores: of a rotary model the turned ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.capture.branches import Documents
from posenc.capture.capture import last_from
from posenc.capture.masked_attention import PairScores, scored
from posenc.metrics.band_projections import Basis, prefix_projections, projection

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Kept = Callable[[int], NDArray[np.bool_]]
"""Which of a basis of so many tokens are kept, bool [tokens]."""


class Projections:
    """What queries and keys of a document are projected on.

    Parameters
    ----------
    basis, kept
        Of a number of tokens: orthonormal signals, and which of them are kept.
    causal
        Whether a query sees its prefix, or all.
    longest
        Tokens of the longest document.
    """

    def __init__(self, basis: Basis, kept: Kept, causal: bool, longest: int) -> None:
        self.basis, self.kept = basis, kept
        self.causal, self.longest = causal, longest
        self._made: dict[int, Tensor] = {}

    def __call__(self, tokens: int) -> Tensor:
        """Of a document of so many tokens, float32 [tokens, tokens, tokens]: a matrix a query.

        An encoder has one for all queries, [1, tokens, tokens].
        """
        size = self.longest if self.causal else tokens
        if size not in self._made:
            if self.causal:
                projections = prefix_projections(size, self.basis, self.kept)
            else:
                projections = projection(self.basis(size), self.kept(size))[None].astype(np.float32)
            self._made[size] = torch.from_numpy(projections)
        return self._made[size][:tokens, :tokens, :tokens]


def last_of(queries: Tensor, projections: Tensor) -> Tensor:
    """Each query as the last of its projected prefix, or at its place of the whole document.

    Parameters
    ----------
    queries
        [batch, n_heads, tokens, d_head].
    projections
        Of :class:`Projections`.

    Returns
    -------
    [batch, n_heads, tokens, d_head].
    """
    tokens = queries.shape[2]
    rows = projections.expand(tokens, -1, -1).diagonal().T  # [tokens, tokens]
    return rows @ queries


@dataclass(frozen=True)
class Filtered:
    """Products of projected queries and projected keys."""

    kept: Projections

    def __call__(
        self,
        query: Tensor,  # [batch, n_heads, tokens, d_head]
        key: Tensor,  # [batch, n_heads, tokens, d_head]
        documents: Documents,
    ) -> Tensor:  # [batch, n_heads, tokens, tokens]
        kept = self.kept(query.shape[2])  # [tokens or 1, tokens, tokens]
        rows = last_of(query, kept) @ key.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        return torch.einsum("bhij,ikj->bhik", rows, kept)


@dataclass(frozen=True)
class Scaled:
    """Products of queries and keys that are as long as the projected ones, in their own directions.

    A query is as long as its projection. The keys that it sees are so many times shorter that they
    vary as much as their projections: what all keys have in common moves no softmax.

    Attributes
    ----------
    kept
        What they would be projected on.
    varying
        The same without the constant.
    whole
        All but the constant.
    """

    kept: Projections
    varying: Projections
    whole: Projections

    def __call__(
        self,
        query: Tensor,  # [batch, n_heads, tokens, d_head]
        key: Tensor,  # [batch, n_heads, tokens, d_head]
        documents: Documents,
    ) -> Tensor:  # [batch, n_heads, tokens, tokens]
        tokens = query.shape[2]
        gram = key @ key.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        # |F K|² is the trace of F K Kᵀ, for F is a projection.
        left, there = (
            torch.einsum("ijk,bhjk->bhi", projections(tokens), gram).clamp(min=0).sqrt()
            for projections in (self.varying, self.whole)
        )  # [batch, n_heads, tokens or 1]
        shorter = last_of(query, self.kept(tokens)).norm(dim=-1) / query.norm(dim=-1)
        # The first key varies from nothing.
        factor = shorter * torch.where(there > 0, left / there, 1)  # [batch, n_heads, tokens]
        return (query @ key.transpose(-1, -2)) * factor[..., None]


@torch.inference_mode()
def states_scored(
    model: PreTrainedModel,
    documents: list[list[int]],
    scores: PairScores,
    layers: Sequence[int],
    begin: Tensor,
) -> Tensor:
    """Run a model on documents, with other products of queries and keys in some layers.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    documents
        Token ids.
    scores
        What gives the products.
    layers
        In which layers, in order.
    begin
        What the first of these layers is given, [tokens, d_model], one of
        :func:`posenc.capture.capture.packed_states`: the layers below are not run again.

    Returns
    -------
    Hidden states after the last layer and its norm, [tokens, d_model], documents in one row.
    """
    with scored(dict.fromkeys(layers, scores)):
        return last_from(model, documents, layers[0], begin)
