"""What was observed of a forward pass: its calls of attention, and the masks made for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from posenc.architectures.options import Options

UNSEEN = (
    "its attention does not go through the library's attention interface, so that nothing can be "
    "recorded in it"
)
ONLY_OWN = (
    "it runs with the library's own attention alone, not with a function in its place, so that "
    "nothing can be recorded in it"
)
KNOWN = ("s_aux", "position_bias", "indices", "position_ids")
"""Tensors that the library may give with a call: what is done with them is known."""


def unknown(given: Mapping[str, Any]) -> str | None:
    """The name of a tensor that the library gives with a call, of which nothing is known here."""
    names = (name for name, x in given.items() if isinstance(x, Tensor) and name not in KNOWN)
    return next(names, None)


@dataclass(frozen=True)
class Call:
    """One call of the attention function, as it was observed.

    Attributes
    ----------
    module
        The library's attention.
    query, key, value
        [batch, heads, tokens, d_head] each; keys and values may have fewer heads.
    mask
        What the library made of its mask function, or a mask of the model's own; None for none.
    is_causal
        What the model says of itself where there is no mask.
    options
        As given.
    unknown
        As :func:`unknown` finds it.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    is_causal: bool
    options: Options
    unknown: str | None


@dataclass
class Observed:
    """Calls of one forward pass, and the mask functions that the library made masks of."""

    calls: list[Call] = field(default_factory=list)
    masks: list[tuple[Tensor, Callable]] = field(default_factory=list)

    def function_of(self, mask: Tensor) -> Callable | None:
        """The mask function behind a mask; None if the model made the mask by itself."""
        for candidate, function in self.masks:
            if candidate.data_ptr() == mask.data_ptr():
                return function
        return None
