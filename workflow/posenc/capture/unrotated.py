"""Rotary models in which single heads, or pairs with a single key, are not turned (row F5).

A condition of a study leaves rotation out of chosen layers (:mod:`posenc.capture.rotation`). Here
hundreds of choices are made, most of which change one layer: the layers below it run once for all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.architectures.position import Turned
from posenc.capture.capture import last_from, packed_last
from posenc.capture.masked_attention import scored
from posenc.capture.pair_scores import UnrotatedScores, turns_of
from posenc.capture.parts import blocks
from posenc.conditions.section import Unrotated

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Documents = list[list[int]]


@torch.inference_mode()
def layer_inputs(model: PreTrainedModel, documents: Documents) -> list[Tensor]:
    """What each block of the intact model is given, [tokens, d_model], documents in one row."""
    states: list[Tensor] = []
    with contextlib.ExitStack() as stack:
        for block in blocks(model):
            hook = block.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0][0]))
            stack.callback(hook.remove)
        packed_last(model, documents)
    return states


@torch.inference_mode()
def states_unrotated(
    model: PreTrainedModel,
    documents: Documents,
    inputs: Sequence[Tensor],
    heads: NDArray[np.bool_],
    key: int | None = None,
) -> Tensor:
    """Run a rotary model on documents, some of its heads without rotation.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, of the family ``llama``.
    documents
        Token ids.
    inputs
        From :func:`layer_inputs` of the same documents.
    heads
        [n_layers, n_heads]: which heads compare queries and keys as they were before rotation. Of
        a query head that shares its key with others, the key is as it was for that head alone.
    key
        Only where a query meets the key at this place of its document, from 0; None for all keys.

    Returns
    -------
    Hidden states after the last layer and its norm, [tokens, d_model].
    """
    changed = np.flatnonzero(heads.any(axis=1)).tolist()  # layers
    start = changed[0] if changed else 0
    turns = turns_of(model)
    by_layer = {
        layer: _SomeHeads(turns[layer], torch.from_numpy(heads[layer]), key)
        for layer in changed
        if layer in turns
    }
    with scored(by_layer):
        return last_from(model, documents, start, inputs[start])


class _SomeHeads(UnrotatedScores):
    """Products of queries and keys, those of some heads as they were before rotation."""

    def __init__(self, turn: Turned, heads: Tensor, key: int | None) -> None:
        super().__init__(turn, Unrotated(kind="unrotated"))
        self.heads, self.key = heads, key  # bool [n_heads]

    def _chosen(self, places: Tensor, n_heads: int) -> Tensor:
        chosen = self.heads.to(places.device)[:, None, None]  # [n_heads, 1, 1]
        return chosen if self.key is None else chosen & (places == self.key)
