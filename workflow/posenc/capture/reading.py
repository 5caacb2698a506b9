"""Attention in which each query reads a few keys, and the others are hidden from it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from posenc.capture.capture import forward
from posenc.capture.parts import is_decoder
from posenc.models.attention import by_query_head

NAME = "posenc_reading"
Choice = Literal["strongest", "nearest", "random"]
"""Which keys of those that a query sees are left to it: of the highest scores, of the least
distance (of two at one distance, the earlier), or any."""
CHOICES: tuple[Choice, ...] = get_args(Choice)


class Reading(NamedTuple):
    """How many keys each query of each head reads, which, and the seed of those at random.

    A layer's draws have the seed plus the layer's number.
    """

    choice: Choice
    keys: int
    seed: int = 0


class _Pass(NamedTuple):
    """One forward pass that is on its way."""

    reading: Reading | None
    keep: Callable[[Tensor], Any]
    kept: list[Any]
    causal: bool


_pass: _Pass | None = None


@torch.inference_mode()
def states_reading(
    model: nn.Module,
    ids: list[int],
    reading: Reading | None = None,
    keep: Callable[[Tensor], Any] = lambda pattern: None,
) -> tuple[Tensor, list[Any]]:
    """Run the intact model on one document, each query reading no more than some keys.

    Scores of the keys that are left go through the softmax as they are: their weights keep their
    ratios and sum to 1 again, as in the sampled attention of Xu et al. (2015), equation 4, with
    more than one place.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    ids
        Token ids of the document.
    reading
        Which keys are read; None for all that a query sees.
    keep
        What is kept of a layer's pattern, [n_heads, tokens, tokens].

    Returns
    -------
    last
        Hidden states after the last layer and its norm, [tokens, d_model].
    kept
        Of each layer, what ``keep`` returned.
    """
    with _routed(model, _Pass(reading, keep, [], is_decoder(model))) as made:
        states, _ = forward(model, [ids], made.causal)
    return states[-1][0], made.kept


@contextlib.contextmanager
def _routed(model: nn.Module, made: _Pass) -> Iterator[_Pass]:
    """Let the model's attention go through this module during a block."""
    global _pass
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, lambda *_, **__: None)  # one document has no padding
    previous, former = _pass, model.config._attn_implementation
    _pass = made
    model.set_attn_implementation(NAME)
    try:
        yield made
    finally:
        _pass = previous
        model.set_attn_implementation(former)


def _attention(
    module: nn.Module,
    query: Tensor,  # [1, n_heads, tokens, d_head]
    key: Tensor,  # [1, key_value_heads, tokens, d_head]
    value: Tensor,  # [1, key_value_heads, tokens, d_head]
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    assert _pass is not None  # the implementation is set while there is a pass
    change = getattr(module, "change_scores", None)  # of ALiBi and rotary schemes
    if change is not None:
        query, key, attention_mask = change(query, key, attention_mask)
    key, value = (by_query_head(x, query.shape[1]) for x in (key, value))
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query @ key.transpose(-1, -2)).float() * scaling  # [1, n_heads, tokens, tokens]
    if attention_mask is not None:
        scores += attention_mask
    if _pass.causal:
        tokens = scores.shape[-1]
        scores += torch.full((tokens, tokens), -torch.inf, device=scores.device).triu_(1)
    if _pass.reading is not None:
        scores = scores.masked_fill(~read(scores, _pass.reading, module.layer_idx), -torch.inf)
    pattern = scores.softmax(dim=-1)  # [1, n_heads, tokens, tokens]
    _pass.kept.append(_pass.keep(pattern[0]))
    return (pattern.to(value.dtype) @ value).transpose(1, 2).contiguous(), None


def read(scores: Tensor, reading: Reading, layer: int = 0) -> Tensor:
    """Which keys each query reads.

    Parameters
    ----------
    scores
        [..., tokens, tokens], with minus infinity where a query does not see a key.
    reading
        How many keys, and which.
    layer
        So that each layer draws keys of its own.

    Returns
    -------
    Booleans of the same shape: all that it sees of a query that sees no more than ``reading.keys``.
    """
    tokens = scores.shape[-1]
    if reading.choice == "strongest":
        order = scores
    elif reading.choice == "nearest":
        place = torch.arange(tokens, device=scores.device)  # [tokens]
        order = -(place[:, None] - place - 0.25).abs().expand_as(scores)
    else:
        generator = torch.Generator().manual_seed(reading.seed + layer)
        order = torch.rand(scores.shape, generator=generator).to(scores.device)
    sees = scores > -torch.inf  # [..., tokens, tokens]
    order = order.masked_fill(~sees, -torch.inf)
    chosen = order.topk(min(reading.keys, tokens), dim=-1).indices  # [..., tokens, keys]
    return torch.zeros_like(sees).scatter_(-1, chosen, True) & sees
