"""Attention patterns from queries and keys, and the pattern of a head without any preference."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

F = TypeVar("F", bound=np.floating)


def softmax(scores: NDArray[F], *, causal: bool) -> NDArray[F]:
    """Attention pattern of scores: exp z_ij / Σ_k exp z_ik over the keys that a query sees.

    Parameters
    ----------
    scores
        [..., tokens, tokens]: query, key; scaled. The array is taken over.
    causal
        Whether a query sees the keys up to its own only, or all.

    Returns
    -------
    The same array: each row sums to 1.
    """
    if causal:
        scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def attention_pattern(queries: ArrayLike, keys: ArrayLike, *, causal: bool) -> NDArray[np.floating]:
    """Attention pattern softmax(Q Kᵀ / √d_head).

    Parameters
    ----------
    queries, keys
        [..., tokens, d_head], before scaling.
    causal
        Whether a query sees the keys up to its own only, or all.

    Returns
    -------
    float64 [..., tokens, tokens] of float64, else float32: each row sums to 1. Vaswani et al.
    (2017), equation 1, https://arxiv.org/abs/1706.03762.

    Raises
    ------
    ValueError
        If the shapes differ, or a score is not finite.
    """
    queries, keys = np.asarray(queries), np.asarray(keys)  # [..., tokens, d_head] each
    if queries.shape != keys.shape or queries.ndim < 2 or 0 in queries.shape:
        raise ValueError(
            f"shapes {queries.shape} and {keys.shape} are not the same [..., tokens, d_head]"
        )
    kind = np.result_type(queries, keys, np.float32)
    queries, keys = queries.astype(kind, copy=False), keys.astype(kind, copy=False)
    scale = kind.type(queries.shape[-1] ** -0.5)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = (queries * scale) @ np.swapaxes(keys, -1, -2)  # [..., tokens, tokens]
    if not np.isfinite(scores).all():
        raise ValueError("an attention score is not finite")
    return softmax(scores, causal=causal)


def query_pattern(query: ArrayLike, keys: ArrayLike) -> NDArray[np.float64]:
    """Attention pattern of one query over the keys that it sees: softmax(K q / √d_head).

    Parameters
    ----------
    query, keys
        [d_head] and [keys, d_head], before scaling.

    Returns
    -------
    float64 [keys]: sums to 1.

    Raises
    ------
    ValueError
        If a score is not finite.
    """
    query, keys = np.asarray(query, np.float64), np.asarray(keys, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = keys @ query / np.sqrt(len(query))  # [keys]
    if not np.isfinite(scores).all():
        raise ValueError("an attention score is not finite")
    return softmax(scores, causal=False)


def uniform_pattern(tokens: int, *, causal: bool) -> NDArray[np.float64]:
    """Attention that is the same for all keys that a query sees, [tokens, tokens]."""
    return softmax(np.zeros((tokens, tokens)), causal=causal)
