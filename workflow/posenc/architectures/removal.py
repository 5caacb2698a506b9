"""Whether positions are gone once they are taken away, proved on the model itself."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from posenc.architectures import attention
from posenc.architectures.architecture import Architecture
from posenc.architectures.attention import NAME
from posenc.architectures.comparing import (
    FAILURES,
    Check,
    affordable,
    apart,
    sample_ids,
    under,
    whole,
)
from posenc.architectures.options import without_sinks
from posenc.architectures.position import NoPosition

TOKENS = 10
"""Of the shortest text that proves that positions are gone."""
FAR = 2**17
"""Where a text that no limit is known for is put."""


class Before(DynamicCache):
    """A cache that says that so many tokens came before, and holds none of them.

    The tokens of a pass are then as far in a text as it says, and see no others than without it.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        """Tokens that came before."""
        return self.tokens

    def get_mask_sizes(self, query_length: int, *_: Any, **__: Any) -> tuple[int, int]:
        """Keys that there are, and how far the first one is from the first that is kept."""
        return query_length, 0

    def get_query_offset(self, *_: Any, **__: Any) -> int:
        """How far the first query is from the first key."""
        return 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """The keys and values of this pass alone."""
        return key_states, value_states


def takes_before(arch: Architecture) -> bool:
    """Whether a model can be told that tokens came before."""
    return arch.causal and arch.takes("past_key_values")


def far(arch: Architecture, tokens: int) -> int:
    """How many tokens can at most come before a text."""
    return max(0, (arch.positions or FAR) - tokens)


def removed(arch: Architecture, allowed: float) -> Check:
    """Without position a repeated token is the same everywhere; an encoder follows the order.

    The text is as long as the model can be run on, and a short one stands far in a text, too:
    some models scale queries by their positions, and only from some position on.
    """
    name = "positions taken away"
    if isinstance(arch.position, NoPosition):
        reason = "positions enter neither by a table nor by a rotation that is known"
        return Check(name, None, allowed, reason)
    if arch.window(TOKENS):
        reason = f"layers see fewer than {TOKENS} tokens, which tells positions"
        return Check(name, None, allowed, reason)
    tokens = max(TOKENS, affordable(arch))
    while tokens > TOKENS and arch.window(tokens):
        tokens = max(TOKENS, tokens // 2)
    with under(arch.model, NAME), without_sinks(), arch.removed():
        difference = _same_everywhere(arch, tokens) if arch.causal else _moves(arch, tokens)
    if difference is None:
        return Check(name, None, allowed, "no text can be put far from the beginning")
    return Check(name, difference, allowed)


def _same_everywhere(arch: Architecture, tokens: int) -> float | None:
    """How far states, queries and keys of one repeated token are from being the same.

    None where a text cannot be put far from the beginning.

    States alone would not tell a rotation: whatever the weights are, a mean of equal values is one.
    """
    (token,) = sample_ids(arch.model, 1)
    near = _seen(arch, [token] * tokens)
    compared = [near]
    if (later := _later(arch, [token] * TOKENS)) is None:
        return None
    compared.append(later)
    return max(
        apart([parts], [[first[:, :1].expand_as(x) for x, first in zip(parts, near, strict=True)]])
        for parts in compared
    )


def _later(arch: Architecture, ids: Sequence[int]) -> list[Tensor] | None:
    """As :func:`_seen`, of a text before which come as many tokens as the model has room for."""
    before = far(arch, len(ids))
    places = torch.arange(before, before + len(ids), device=next(arch.model.parameters()).device)
    ways = {"past_key_values": Before(before), "position_ids": places[None]}
    for name, value in ways.items():
        if arch.takes(name):
            with contextlib.suppress(*FAILURES):  # some keep more in a cache than keys and values
                return _seen(arch, ids, **{name: value})
    return None


def _seen(arch: Architecture, ids: Sequence[int], **options: Any) -> list[Tensor]:
    """States, queries and keys of a text, [1, tokens, features] each."""
    with attention.recording() as recording:
        states = list(whole(arch, ids, **options).hidden_states)
    parts = (*recording.queries.values(), *recording.keys.values())
    return [*states, *(x.transpose(1, 2).flatten(2) for x in parts)]


def _moves(arch: Architecture, tokens: int) -> float:
    """How far states are from following a permutation of the tokens."""
    ids = sample_ids(arch.model, tokens)
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(0)).tolist()
    straight = whole(arch, ids).hidden_states
    permuted = whole(arch, [ids[place] for place in order]).hidden_states
    return apart([permuted], [[state[:, order] for state in straight]])
