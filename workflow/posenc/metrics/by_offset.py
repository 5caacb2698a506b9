"""Scores and attention by offset, the position of the key minus that of the query.

The previous token has the offset -1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.patterns import softmax, uniform_pattern

Floats = NDArray[np.float64]


def score_by_offset(scores: ArrayLike, offsets: int, causal: bool) -> Floats:
    """Mean score by offset, of what softmax sees.

    softmax does not see what is added to all scores of a query. From each query's scores, the mean
    over the keys that it may attend to is subtracted, then z_(i, i+t) is averaged over i.

    Parameters
    ----------
    scores
        [..., tokens, tokens]: query, key.
    offsets
        t from -offsets to +offsets. Only queries with all these keys count, so that each offset is
        a mean over the same queries; for a causal head, those from -offsets to 0.
    causal
        Whether later keys are masked.

    Returns
    -------
    float64 [..., 2 offsets + 1]; NaN where the key is masked.

    Raises
    ------
    ValueError
        If no query has all these keys.
    """
    scores = np.asarray(scores, np.float64)  # [..., tokens, tokens]
    uniform = uniform_pattern(scores.shape[-1], causal=causal)  # [tokens, tokens]
    mean = np.sum(scores * uniform, axis=-1)  # [..., tokens]
    by_offset = _by_offset(scores - mean[..., None], offsets, causal).mean(axis=-2)
    if causal:
        by_offset[..., offsets + 1 :] = np.nan
    return by_offset


def profile_by_offset(scores: ArrayLike, offsets: int, causal: bool) -> tuple[Floats, Floats]:
    """Attention mass by offset of given scores, and that of a uniform pattern.

    Parameters
    ----------
    scores
        [..., tokens, tokens]: query, key; scaled.
    offsets, causal
        As :func:`score_by_offset`, the queries too.

    Returns
    -------
    mass
        float64 [..., 2 offsets + 1]: mean of softmax(z)_(i, i+t) over i; what is missing to 1 lies
        beyond the window.
    uniform
        float64 [2 offsets + 1]: the same where all allowed keys get the same.
    """
    pattern = softmax(np.array(scores, np.float64), causal=causal)  # [..., tokens, tokens]
    uniform = uniform_pattern(pattern.shape[-1], causal=causal)  # [tokens, tokens]
    return tuple(
        _by_offset(weights, offsets, causal).mean(axis=-2) for weights in (pattern, uniform)
    )


def _by_offset(values: Floats, offsets: int, causal: bool) -> Floats:
    """[..., queries, 2 offsets + 1]: values at each offset of the queries that have all keys."""
    tokens = values.shape[-1]
    last = tokens if causal else tokens - offsets
    if last <= offsets:
        raise ValueError(f"{tokens} tokens are too few for offsets of {offsets}")
    query = np.arange(offsets, last)[:, None]  # [queries, 1]
    # Keys after the last one are masked for a causal head; their values are not used.
    key = np.minimum(query + np.arange(-offsets, offsets + 1), tokens - 1)
    by_offset = values[..., query, key]
    if causal:
        by_offset[..., offsets + 1 :] = 0
    return by_offset
