"""What the library gives with a call of attention, on which scores depend."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_has_sinks = True


@dataclass(frozen=True)
class Options:
    """What scores depend on beside queries and keys.

    Attributes
    ----------
    scaling
        What products of queries and keys are multiplied by.
    softcap
        c of c tanh(score / c), before biases; None for none.
    sinks
        float [n_heads]: a score of no key, which takes its share of each pattern; None for none.
    position_bias
        Added to the scores, [batch or 1, n_heads, tokens, tokens]; None for none.
    unchosen
        Keys that a model leaves each query without, bool [batch, 1, tokens, tokens]; None for none.
    """

    scaling: float
    softcap: float | None = None
    sinks: Tensor | None = None
    position_bias: Tensor | None = None
    unchosen: Tensor | None = None

    @classmethod
    def of(
        cls,
        query: Tensor,  # [batch, n_heads, tokens, d_head]
        key: Tensor,  # [batch, key_value_heads, tokens, d_head]
        given: Mapping[str, Any],
    ) -> Options:
        """Read the options that the library gives with a call."""
        scaling = given.get("scaling")
        chosen = given.get("indices")  # int64 [batch, tokens, keys]
        return cls(
            query.shape[-1] ** -0.5 if scaling is None else scaling,
            given.get("softcap"),
            given.get("s_aux") if _has_sinks else None,
            given.get("position_bias"),
            None if chosen is None else _unchosen(chosen, key.shape[2]),
        )

    @property
    def is_plain(self) -> bool:
        """Whether scores are scaled products and nothing else."""
        added = (self.softcap, self.sinks, self.position_bias, self.unchosen)
        return all(x is None for x in added)

    @property
    def has_bias(self) -> bool:
        """Whether something is added to scores, or keys are left out."""
        return self.position_bias is not None or self.unchosen is not None

    def of_span(self, span: slice) -> Options:
        """Those of one document of a row."""
        bias, unchosen = (
            None if x is None else x[..., span, span] for x in (self.position_bias, self.unchosen)
        )
        return dataclasses.replace(self, position_bias=bias, unchosen=unchosen)

    def of_rows(self, part: slice) -> Options:
        """Those of some rows of a batch."""
        if self.unchosen is None:
            return self
        return dataclasses.replace(self, unchosen=self.unchosen[part])


def _unchosen(chosen: Tensor, keys: int) -> Tensor:
    """Keys other than those that a model chose for each query, bool [batch, 1, tokens, keys]."""
    shape = (*chosen.shape[:2], keys)
    others = torch.ones(shape, dtype=torch.bool, device=chosen.device)
    return others.scatter(-1, chosen.long(), False)[:, None]


@contextlib.contextmanager
def without_sinks() -> Iterator[None]:
    """Let no head have a sink during a block.

    The share of a sink falls with the number of keys: through the causal mask, it tells positions.
    """
    global _has_sinks
    previous, _has_sinks = _has_sinks, False
    try:
        yield
    finally:
        _has_sinks = previous
