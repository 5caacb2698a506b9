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

from posenc.architectures.position import (
    Rotation,
    Turned,
    cosines_sines,
    rotated_as,
    scale_of,
)
from posenc.architectures.position import frequencies as rates
from posenc.capture.masked_attention import scored
from posenc.capture.parts import ConditionError, architecture
from posenc.conditions import positions
from posenc.conditions.section import Clipped, Condition, Unrotated


def frequencies(model: nn.Module) -> np.ndarray:
    """Radians per token of each pair of features, float64 [d_head / 2]."""
    return rates(*_only(model))


def scaling(model: nn.Module) -> float:
    """What a rotary model multiplies cosines and sines by."""
    return scale_of(*_only(model))


def _only(model: nn.Module) -> tuple[nn.Module, str | None]:
    """The rotary module of a model, and what it is asked for.

    Raises
    ------
    ConditionError
        If layers are turned in several ways.
    """
    found = architecture(model)
    rotation = found.position
    if not isinstance(rotation, Rotation) or len(rotation.forms) != 1:
        raise ConditionError(f"the layers of {found.model_type} are not all turned in one way")
    number, kind = next(iter(rotation.forms))
    return rotation.modules[number], kind


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
        pairs = {
            layer: PairScores(turn, condition.position)
            for layer, turn in turns_of(model).items()
            if layer in chosen
        }
        with scored(model, pairs):
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
    """Scores of documents in which some pairs are turned otherwise than the rest, in one layer.

    Parameters
    ----------
    turn
        How the layer is turned.
    section
        Which pairs, and how.
    """

    def __init__(self, turn: Turned, section: Unrotated | Clipped) -> None:
        self.turn, self.section = turn, section

    def __call__(
        self,
        query: Tensor,  # [batch, n_heads, tokens, d_head], turned
        key: Tensor,  # [batch, n_heads, tokens, d_head], turned
    ) -> Tensor:
        """Products of queries and keys, [batch, n_heads, tokens, tokens]."""
        places = torch.arange(query.shape[2], device=query.device)  # [tokens]
        cosine, sine = self._angles(query, places)  # [tokens, pairs] each
        # The transpose of a rotation is its inverse.
        query_before, key_before = (rotated_as(x, self.turn, cosine, -sine) for x in (query, key))
        scores = query @ key.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
        if isinstance(self.section, Clipped):
            edge = self._angles(query, torch.full_like(places[:1], self.section.distance))
            at_edge = rotated_as(query_before, self.turn, *edge)  # [batch, n_heads, tokens, d_head]
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

    def _angles(self, x: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines at some positions, [positions, pairs] each."""
        turn = self.turn
        return cosines_sines(turn.module, turn.layer_type, turn.form, x, places)


def turns_of(model: nn.Module) -> dict[int, Turned]:
    """By layer, how queries and keys are turned; layers that are not turned are left out.

    Raises
    ------
    ConditionError
        If that is not known of a layer.
    """
    found = architecture(model)
    rotation = found.position
    if not isinstance(rotation, Rotation):
        raise ConditionError(f"{found.model_type}: its positions are no rotation")
    if rotation.unturned is not None:
        raise ConditionError(f"{found.model_type}: {rotation.unturned}")
    return {layer: turn for layer, turn in enumerate(rotation.layers) if turn is not None}
