"""Queries and keys, recorded through the library's own attention interface.

Those of a rotary model are recorded as turned, so that they give its scores.

The recorder hands over to the library's scaled-dot-product attention, so outputs are the ones
that the untouched model gives. The mask function is registered under the same name: without it
the library would build no mask for an unknown implementation, silently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "posenc"


class Recording:
    """Queries and keys of one forward pass, by layer."""

    def __init__(self) -> None:
        self.queries: dict[int, Tensor] = {}  # layer -> [batch, n_heads, tokens, d_head]
        self.keys: dict[int, Tensor] = {}  # layer -> [batch, n_heads, tokens, d_head]


_active: Recording | None = None


def _attention(
    module: nn.Module,
    query: Tensor,  # [batch, n_heads, tokens, d_head]
    key: Tensor,  # [batch, n_heads, tokens, d_head]
    value: Tensor,  # [batch, n_heads, tokens, d_head]
    attention_mask: Tensor | None,
    **kwargs,
) -> tuple[Tensor, None]:
    change = getattr(
        module, "change_scores", None
    )  # of ALiBi and rotary models: posenc.models.schemes
    if change is not None:
        query, key, attention_mask = change(query, key, attention_mask)
    if _active is not None:
        _active.queries[module.layer_idx] = query
        _active.keys[module.layer_idx] = key
    return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)


def register() -> None:
    """Make the implementation known to the library under :data:`NAME`."""
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Record queries (before scaling) and keys of every layer during a block."""
    global _active
    previous, _active = _active, Recording()
    try:
        yield _active
    finally:
        _active = previous
