"""Rotary models under conditions on their rotation (rows F1 and F5), in memory.

What changes all pairs of a query and a key alike changes the angles that the library's module
gives. What changes some pairs alone is done where scores are computed: queries and keys are turned
back there, and the scores of those pairs are computed again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from posenc.architectures.position import Rotation
from posenc.capture.masked_attention import scored
from posenc.capture.parts import ConditionError, architecture, rotary
from posenc.conditions import positions
from posenc.conditions.section import Clipped, Condition, Unrotated
from posenc.models.schemes import rotated


def frequencies(model: nn.Module) -> np.ndarray:
    """Radians per token of each pair of features, float64 [d_head / 2]."""
    return rotary(model).inv_freq.double().cpu().numpy()


@contextlib.contextmanager
def turned(model: nn.Module, condition: Condition, tokens: int = 0) -> Iterator[None]:
    """Let a rotary model turn queries and keys as a condition says, during a block.

    Parameters
    ----------
    tokens
        Length of the longest document, where it may exceed the positions that the model has.
    """
    if condition.position == "intact":
        yield
        return
    if isinstance(condition.position, Unrotated | Clipped):
        chosen = getattr(condition.position, "layers", None) or range(architecture(model).n_layers)
        pairs = PairScores(rotary(model), condition.position)
        with scored(model, dict.fromkeys(chosen, pairs)):
            yield
        return
    rotation = architecture(model).position
    assert isinstance(rotation, Rotation)
    if condition.position == "zero" and rotation.problem is not None:
        with rotation.removed():
            yield
        return
    if rotation.problem is not None:
        raise ConditionError(f"{architecture(model).model_type}: {rotation.problem}")
    change = functools.partial(positions.position.call, condition.position)
    with rotation.turned(change, tokens):
        yield


class PairScores:
    """Scores of documents in which some pairs are turned otherwise than the rest.

    Parameters
    ----------
    module
        The library's rotation.
    section
        Which pairs, and how.
    """

    def __init__(self, module: nn.Module, section: Unrotated | Clipped) -> None:
        self.module, self.section = module, section

    def __call__(
        self,
        query: Tensor,  # [batch, n_heads, tokens, d_head], turned
        key: Tensor,  # [batch, n_heads, tokens, d_head], turned
    ) -> Tensor:
        """Products of queries and keys, [batch, n_heads, tokens, tokens]."""
        places = torch.arange(query.shape[2], device=query.device)  # [tokens]
        cosine, sine = self._angles(query, places)  # [tokens, d_head / 2] each
        # The transpose of a rotation is its inverse.
        query_before, key_before = (rotated(x, cosine, -sine) for x in (query, key))
        scores = query @ key.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        if isinstance(self.section, Clipped):
            edge = self._angles(query, torch.full_like(places[:1], self.section.distance))
            at_edge = rotated(query_before, *edge)  # [batch, n_heads, tokens, d_head]
            other = at_edge @ key_before.transpose(-1, -2)
            return torch.where(places[:, None] - places > self.section.distance, other, scores)
        other = query_before @ key_before.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        return torch.where(self._chosen(places, query.shape[1]), other, scores)

    def _chosen(self, places: Tensor, n_heads: int) -> Tensor:
        """Pairs that are not turned, bool [n_heads or 1, 1, tokens or 1]."""
        assert isinstance(self.section, Unrotated)
        keys = places == 0 if self.section.first_key else torch.ones_like(places[:1]).bool()
        if self.section.heads is None:
            return keys[None, None]
        heads = torch.zeros(n_heads, 1, 1, dtype=torch.bool, device=places.device)
        heads[self.section.heads] = True
        return heads & keys

    def _angles(self, x: Tensor, places: Tensor) -> Iterator[Tensor]:
        """Cosines and sines at some positions, [positions, d_head / 2] each.

        A library's scale of queries and keys is not part of them: it stays with the vectors.
        """
        found = self.module(x, position_ids=places[None])  # [1, positions, d_head] each
        scale, half = self.module.attention_scaling, x.shape[-1] // 2
        return (one[0, :, :half] / scale for one in found)
