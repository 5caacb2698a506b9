"""How a decoder that is trained here is told positions: a table, the attention, or not at all.

A scheme is a word of the model's own ``config.json`` (``position_scheme``; without it, positions
are learned, as in any GPT-2), so that a folder of weights says by itself how it is to be run.
Tables lie in the weights; ALiBi and rotary embeddings act in the attention, through
:mod:`posenc.architectures.attention`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc.architectures import attention
from posenc.architectures.position import rotated
from posenc.metrics.sinusoid import sinusoidal

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel, PreTrainedModel

KEY = "position_scheme"
IN_ATTENTION = ("alibi", "rotary")
"""Schemes that change the attention scores; the others are a table that is added."""


def prepare(model: GPT2LMHeadModel, scheme: str) -> None:
    """Make a freshly initialised GPT-2 a model of a scheme; it is changed in place.

    The table of ``learned`` stays as it is. That of ``sinusoidal`` is Vaswani et al.'s (2017),
    scaled to the standard deviation of the initial weights, since the library's GPT-2 does not
    scale token embeddings up as they did. Those of the others are zero. A table that is not learned
    stays fixed.

    Parameters
    ----------
    model
        A ``GPT2LMHeadModel``.
    scheme
        ``learned``, ``sinusoidal``, ``alibi`` (Press, Smith and Lewis, 2022), ``rotary`` (Su et
        al., 2021) or ``none`` (Haviv et al., 2022).
    """
    if scheme == "learned":
        return
    setattr(model.config, KEY, scheme)
    install(model)
    table = model.transformer.wpe.weight  # [n_positions, d_model]
    values = torch.zeros_like(table)
    if scheme == "sinusoidal":
        values = torch.from_numpy(sinusoidal(table.shape[0], table.shape[1])).to(
            table
        )  # [n_positions, d_model]
        values = values * (model.config.initializer_range / values.std())
    with torch.no_grad():
        table.copy_(values)
    table.requires_grad_(False)


def install(model: PreTrainedModel) -> None:
    """Let the attention of a model follow the scheme that its configuration names.

    A model without the word, or of a scheme that is a table, is left alone.
    """
    scheme = getattr(model.config, KEY, "learned")
    if scheme not in IN_ATTENTION:
        return
    attention.register()
    model.set_attn_implementation(attention.NAME)
    changes = {"alibi": with_alibi, "rotary": with_rotary}
    blocks: Any = model.get_submodule("transformer.h")
    for block in blocks:
        block.attn.change_scores = changes[scheme]


def with_rotary(
    query: Tensor,  # [batch, n_heads, tokens, d_head]
    key: Tensor,  # [batch, n_heads, tokens, d_head]
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Turn queries and keys by their positions, so that scores depend on offsets alone.

    Feature pairs (c, c + d_head / 2) are turned by position x 10000^(-2c / d_head): Su et al.
    (2021), https://arxiv.org/abs/2104.09864, eq. 34, in the order of features that the library's
    own rotary models use.
    """
    return _turned(query), _turned(key), mask


def with_alibi(
    query: Tensor,  # [batch, n_heads, tokens, d_head]
    key: Tensor,  # [batch, n_heads, tokens, d_head]
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Add -slope x distance to the scores, by the mask: Press, Smith and Lewis (2022), eq. 1.

    Slopes are 2^(-8h / n_heads) for the heads h = 1 ... n_heads.

    Raises
    ------
    ValueError
        If there is a mask already: rows are not padded here.
    """
    if mask is not None:
        raise ValueError("a decoder with ALiBi takes rows without padding: its mask must be None")
    n_heads, tokens = query.shape[1], query.shape[2]
    bias = _alibi(n_heads, tokens).to(query)  # [n_heads, tokens, tokens]
    return query, key, bias[None]


@functools.lru_cache(maxsize=8)
@torch.inference_mode(False)  # what is kept may be used in training too
def _alibi(n_heads: int, tokens: int) -> Tensor:
    """Biases with the causal mask, float32 [n_heads, tokens, tokens]."""
    slopes = 2.0 ** (-8.0 * torch.arange(1, n_heads + 1) / n_heads)  # [n_heads]
    place = torch.arange(tokens)  # [tokens]
    distance = place[:, None] - place[None, :]  # [tokens, tokens]
    bias = -slopes[:, None, None] * distance  # [n_heads, tokens, tokens]
    return bias.masked_fill(distance < 0, -torch.inf)


def _turned(x: Tensor) -> Tensor:
    tokens, width = x.shape[-2:]
    cosine, sine = _angles(tokens, width)  # [tokens, d_head / 2] each
    return rotated(x, cosine.to(x), sine.to(x))


@functools.lru_cache(maxsize=8)
@torch.inference_mode(False)  # what is kept may be used in training too
def _angles(tokens: int, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of position x frequency, float32 [tokens, width / 2] each."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2) / width)  # [width / 2]
    angle = torch.arange(tokens)[:, None] * frequency  # [tokens, width / 2]
    return angle.cos(), angle.sin()
