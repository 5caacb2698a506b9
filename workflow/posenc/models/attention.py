"""Queries and keys, recorded through the library's own attention interface.

Those of a rotary model are recorded as turned, so that they give its scores; keys of grouped heads
are recorded once for each query head.

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
    key: Tensor,  # [batch, key_value_heads, tokens, d_head]
    value: Tensor,  # [batch, key_value_heads, tokens, d_head]
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
        _active.keys[module.layer_idx] = by_query_head(key, query.shape[1])
    return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)


def by_query_head(x: Tensor, n_heads: int) -> Tensor:
    """Keys or values of grouped heads, one for each query head (Ainslie et al., 2023, section 2.2).

    Parameters
    ----------
    x
        [batch, key_value_heads, tokens, d_head].

    Returns
    -------
    [batch, n_heads, tokens, d_head]; ``x`` itself where no heads are grouped.
    """
    groups = n_heads // x.shape[1]
    return x if groups == 1 else x.repeat_interleave(groups, dim=1)


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


@contextlib.contextmanager
def recording_before_rotation(model: nn.Module) -> Iterator[Recording]:
    """Record queries and keys of a Llama as its projections give them, during a block.

    Keys are recorded once for each query head, as those of :func:`recording` are, which the same
    forward pass may record beside them.

    Parameters
    ----------
    model
        Of the family ``llama``: each attention has the modules ``q_proj`` and ``k_proj``.
    """
    found, hooks = Recording(), []

    def keep(module: nn.Module, into: dict[int, Tensor], n_heads: int):
        def hook(_module: nn.Module, _inputs: tuple, output: Tensor) -> None:
            heads = output.unflatten(-1, (-1, module.head_dim))  # [batch, tokens, heads, d_head]
            into[module.layer_idx] = by_query_head(heads.transpose(1, 2), n_heads)

        return hook

    n_heads = model.config.num_attention_heads
    for module in model.modules():
        for name, into in (("q_proj", found.queries), ("k_proj", found.keys)):
            if hasattr(module, name):
                hook = keep(module, into, n_heads)
                hooks.append(getattr(module, name).register_forward_hook(hook))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
