"""The registered attention function: one place where every attention of the library passes.

Queries and keys come here after rotation and after any normalisation of them, with all that the
scores depend on: a scaling, a soft cap, sinks, a bias. They are recorded here, and nowhere else;
keys of grouped heads are recorded once for each query head.

The plain implementation hands over to the library's scaled-dot-product attention, so outputs are
the ones that the untouched model gives. The mask function is registered under the same name:
without it the library would build no mask for an unknown implementation, silently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from posenc.architectures.observed import Call, Observed, unknown
from posenc.architectures.options import Options

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "posenc"
LAYERS = "_posenc_layers"
"""Attribute of an attention module: the layers that it computes, in order."""
_CALLS = "_posenc_calls"


class Recording:
    """Queries, keys and options of one forward pass, by layer."""

    def __init__(self) -> None:
        self.queries: dict[int, Tensor] = {}  # layer -> [batch, n_heads, tokens, d_head]
        self.keys: dict[int, Tensor] = {}  # layer -> [batch, n_heads, tokens, d_head]
        self.options: dict[int, Options] = {}
        self.values: dict[int, Tensor] | None = None
        """layer -> [batch, key_value_heads, tokens, d_value], where they are asked for."""

    def keep(self, layer: int, query: Tensor, key: Tensor, value: Tensor, options: Options) -> None:
        """Record a layer; ``key`` may have fewer heads than ``query``."""
        self.queries[layer] = query
        self.keys[layer] = by_query_head(key, query.shape[1])
        self.options[layer] = options
        if self.values is not None:
            self.values[layer] = value


_active: Recording | None = None
_observed: Observed | None = None
_is_explicit = False


def layer_of(module: Any) -> int:
    """The layer that a call of an attention module belongs to.

    A module that computes several layers, as where all share their weights, counts its calls.
    """
    layers = getattr(module, LAYERS, None)
    if layers is None:  # of a model that nobody discovered
        return module.layer_idx
    if len(layers) == 1:
        return layers[0]
    calls = getattr(module, _CALLS, 0)
    setattr(module, _CALLS, (calls + 1) % len(layers))
    return layers[calls]


def count_from_first(modules: Iterator[nn.Module]) -> None:
    """Say that a forward pass begins, to modules that compute several layers."""
    for module in modules:
        setattr(module, _CALLS, 0)


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
        attention_mask = None if _observed is not None else attention_mask  # one document
        query, key, attention_mask = change(query, key, attention_mask)
    options = Options.of(query, key, kwargs)
    if _active is not None:
        _active.keep(layer_of(module), query, key, value, options)
    is_causal = kwargs.get("is_causal")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if _observed is not None:
        given = (module, query, key, value, attention_mask, is_causal, options)
        _observed.calls.append(Call(*given, unknown(kwargs)))
    if options.is_plain and not _is_explicit:
        kwargs.pop("s_aux", None)  # sinks, of which there are none
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    bias = as_bias(attention_mask, query.shape[2], is_causal, query.device)
    key, value = (by_query_head(x, query.shape[1]) for x in (key, value))
    return explicit(query, key, value, options, bias).transpose(1, 2).contiguous(), None


def as_bias(mask: Tensor | None, tokens: int, is_causal: bool, device: Any) -> Tensor | None:
    """A mask of the library as what is added to scores, [..., tokens, tokens]; None for nothing."""
    if mask is None:
        if not is_causal:
            return None
        return torch.full((tokens, tokens), -torch.inf, device=device).triu_(1)
    return torch.where(mask, 0.0, -torch.inf) if mask.dtype == torch.bool else mask


def explicit(
    query: Tensor,  # [batch, n_heads, tokens, d_head]
    key: Tensor,  # [batch, n_heads, tokens, d_head]
    value: Tensor,  # [batch, n_heads, tokens, d_head]
    options: Options,
    bias: Tensor | None,
    score_factor: Tensor | None = None,
    pattern_factor: Tensor | None = None,
    products: Tensor | None = None,
) -> Tensor:
    """Attention by its pattern, see :func:`pattern`: [batch, n_heads, tokens, d_head]."""
    if products is None:
        products = query @ key.transpose(-1, -2)  # [batch, n_heads, tokens, tokens]
    weights = pattern(products, options, bias, score_factor, pattern_factor)
    return weights.to(value.dtype) @ value


def pattern(
    products: Tensor,  # [batch, n_heads, tokens, tokens]
    options: Options,
    bias: Tensor | None,
    score_factor: Tensor | None = None,
    pattern_factor: Tensor | None = None,
) -> Tensor:
    """The attention pattern in float32, whatever the model computes in.

    softmax(factor * cap(scaling * products) + position bias + bias), times the factor on the
    pattern; with a sink in the sum of the softmax where a head has one. Factors and biases are
    large numbers. All are [batch or 1, n_heads or 1, tokens or 1, tokens], or fewer axes.

    Returns
    -------
    float32 [batch, n_heads, tokens, tokens].
    """
    scores = products.float() * options.scaling  # [batch, n_heads, tokens, tokens]
    if options.softcap is not None:
        scores = torch.tanh(scores / options.softcap) * options.softcap
    if options.position_bias is not None:
        scores += options.position_bias
    if score_factor is not None:
        scores *= score_factor
    if bias is not None:
        scores += bias
    if options.unchosen is not None:
        scores = scores.masked_fill(options.unchosen, -torch.inf)
    if options.sinks is not None:
        sinks = options.sinks.float().reshape(1, -1, 1, 1)  # [1, n_heads, 1, 1]
        sinks = sinks.expand(*scores.shape[:-1], 1)  # [batch, n_heads, tokens, 1]
        scores = torch.cat([scores, sinks], dim=-1)  # [batch, n_heads, tokens, tokens + 1]
        scores = scores - scores.max(dim=-1, keepdim=True).values
        weights = scores.softmax(dim=-1)[..., :-1]  # [batch, n_heads, tokens, tokens]
    else:
        weights = scores.softmax(dim=-1)  # [batch, n_heads, tokens, tokens]
    if pattern_factor is not None:
        weights = weights * pattern_factor
    return weights


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


def _mask(*args, **kwargs) -> Tensor | None:
    """The library's mask; while a pass is observed it is made whole, and its function kept."""
    if _observed is None:
        return sdpa_mask(*args, **kwargs)
    whole = kwargs | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    mask = sdpa_mask(*args, **whole)  # bool [batch, 1, tokens, tokens]
    assert mask is not None  # it may not be skipped
    _observed.masks.append((mask, kwargs["mask_function"]))
    return mask


def register() -> None:
    """Make the implementation known to the library under :data:`NAME`."""
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)


def active() -> Recording | None:
    """The recording that is on, if one is."""
    return _active


@contextlib.contextmanager
def recording(values: bool = False) -> Iterator[Recording]:
    """Record queries (before scaling) and keys of every layer during a block; values if asked."""
    global _active
    previous, _active = _active, Recording()
    _active.values = {} if values else None
    try:
        yield _active
    finally:
        _active = previous


@contextlib.contextmanager
def observing() -> Iterator[Observed]:
    """Observe the calls of a forward pass through :data:`NAME`, and the masks made for it."""
    global _observed
    previous, _observed = _observed, Observed()
    try:
        yield _observed
    finally:
        _observed = previous


@contextlib.contextmanager
def explicitly() -> Iterator[None]:
    """Compute attention by its pattern, as the library's eager attention does, during a block."""
    global _is_explicit
    previous, _is_explicit = _is_explicit, True
    try:
        yield
    finally:
        _is_explicit = previous


def gives_content(module: nn.Module) -> bool:
    """Whether :func:`recording_before_rotation` finds the maps of an attention module."""
    return all(hasattr(module, name) for name in ("q_proj", "k_proj"))


@contextlib.contextmanager
def recording_before_rotation(model: PreTrainedModel) -> Iterator[Recording]:
    """Record queries and keys as their maps give them, before any rotation, during a block.

    Keys are recorded once for each query head, as those of :func:`recording` are, which the same
    forward pass may record beside them.

    Parameters
    ----------
    model
        Each attention has the modules ``q_proj`` and ``k_proj``, after which queries and keys are
        turned and nothing else.
    """
    before, hooks = Recording(), []

    def keep(module: nn.Module, into: dict[int, Tensor], n_heads: int):
        def hook(_module: nn.Module, _inputs: tuple, output: Tensor) -> None:
            heads = output.unflatten(-1, (-1, module.head_dim))  # [batch, tokens, heads, d_head]
            into[layer_of(module)] = by_query_head(heads.transpose(1, 2), n_heads)

        return hook

    n_heads = model.config.num_attention_heads
    for module in model.modules():
        for name, into in (("q_proj", before.queries), ("k_proj", before.keys)):
            if hasattr(module, name):
                hook = keep(module, into, n_heads)
                hooks.append(getattr(module, name).register_forward_hook(hook))
    try:
        yield before
    finally:
        for hook in hooks:
            hook.remove()
