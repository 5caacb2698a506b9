"""What a mask does to attention: the rows of the catalogue's table (row A4).

The same user code, ``attention_mask=linspace(0.1, 1, n)``, was taken in five ways by versions of
the library. Each is a function here, from factors m to a :class:`Change`, and agrees with the
versions that were run (docs/mask-semantics-versions.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.config.registry import Registry

LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Change:
    """What happens to the attention of one document. All arrays broadcast to [H, length, length].

    Attributes
    ----------
    bias
        Added to the scaled scores z.
    score_factor
        Multiplies the scaled scores, before the bias.
    pattern_factor
        Multiplies the attention pattern, after the softmax and without renormalising it.
    embedding_factor
        Multiplies the input of the first block, [length].
    sees_future
        The bias alone says which keys a query sees: a decoder's causal mask is not added.
    """

    bias: NDArray | None = None
    score_factor: NDArray | None = None
    pattern_factor: NDArray | None = None
    embedding_factor: NDArray | None = None
    sees_future: bool = False


semantics: Registry[Callable[..., Any]] = Registry("semantics")

Factors = NDArray[np.floating]  # [1 or length, length], of each query (or all) and key


def future(length: int) -> NDArray[np.bool_]:
    """Pairs whose key comes after the query, [length, length]."""
    positions = np.arange(length)
    return positions[None, :] > positions[:, None]


def _eager(m: Factors, causal: bool, hiding: float) -> Change:
    """The library's eager attention: a finite number hides the future and weighs the mask.

    The future's scores are replaced by it, not lowered to minus infinity: where the mask takes as
    much from a query's past (a floor of 0), the future is seen.
    """
    with np.errstate(over="ignore"):
        bias = (1 - m.astype(np.float32)) * np.float32(hiding)  # [1 or length, length]
        if not causal:
            return Change(bias=bias)
        after = future(m.shape[-1])
        return Change(
            bias=np.where(after, np.float32(hiding) + bias, bias),
            score_factor=np.where(after, 0.0, 1.0),
            sees_future=True,
        )


@semantics
def hf_le420(m: Factors, causal: bool) -> Change:
    """transformers up to 4.20: z + (1 - m)(-10^4)."""
    return _eager(m, causal, -1e4)


@semantics
def hf_finfo(m: Factors, causal: bool) -> Change:
    """transformers 4.21 to 4.51 (BERT: 4.57), eager: z + (1 - m) times the lowest float32."""
    return _eager(m, causal, LOWEST)


@semantics
def hf_sdpa_cpu(m: Factors, causal: bool) -> Change:
    """transformers 4.42 to 4.51 (BERT: 4.41 to 4.57), sdpa, CPU: keys with m not 1 are hidden.

    A row in which every key is masked has equal scores, so it is uniform over all keys.
    """
    masked = np.broadcast_to(m != 1, (m.shape[-1],) * 2)  # [length, length]
    if causal:
        masked = masked | future(m.shape[-1])
    whole = masked.all(axis=-1, keepdims=True)  # [length, 1]
    # z + lowest is lowest for every z that occurs: as a bias it says the same without a z.
    return Change(
        bias=np.where(masked & ~whole, LOWEST, 0.0),
        score_factor=np.where(whole, 0.0, 1.0),
        sees_future=True,
    )


@semantics
def hf_sdpa_cuda(m: Factors, causal: bool) -> Change:
    """transformers 4.42 to 4.51, sdpa, CUDA: as on the CPU, but wholly masked rows see all."""
    change = hf_sdpa_cpu(m, causal)
    if not causal:  # the library lets wholly masked rows free in decoders only
        return change
    return Change(bias=change.bias, sees_future=True)


@semantics
def hf_bool(m: Factors, causal: bool) -> Change:
    """transformers from 4.52 (BERT: 5.0): a key is seen where m is not 0."""
    return Change(bias=np.where(m != 0, 0.0, -np.inf))


@semantics
def log_mask(m: Factors, causal: bool) -> Change:
    """softmax(z + log m): the pattern times m, renormalised."""
    with np.errstate(divide="ignore"):
        return Change(bias=np.log(m))


@semantics
def prob_mul(m: Factors, causal: bool) -> Change:
    """(m * p) V: the pattern times m, not renormalised."""
    return Change(pattern_factor=m)


@semantics
def logit_mul(m: Factors, causal: bool) -> Change:
    """softmax(m z): negative scores rise."""
    return Change(score_factor=m)


@semantics
def emb_mul(m: Factors, causal: bool) -> Change:
    """x times m before the first block, token by token."""
    if m.shape[-2] != 1:
        raise ValueError("emb_mul needs a profile that is the same for every query")
    return Change(embedding_factor=m[0])


def additive(bias: NDArray) -> Change:
    """z + b: for profiles that are a bias, and what newer libraries do with a 4-D float mask."""
    return Change(bias=bias)
