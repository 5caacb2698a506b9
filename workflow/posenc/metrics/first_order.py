"""What rotation adds to a score, as four terms (row F7).

With R the rotation to a position, G(a, b) = (R_i a)·(R_j b) - a·b is what it adds to the product of
a query a at i and a key b at j. G is bilinear. With the means q̄ and k̄ of a head before rotation (k̄
of the first key its own), q = q̄ + q′ and k = k̄ + k′,

    G(q, k) = G(q̄, k̄) + G(q̄, k′) + G(q′, k̄) + G(q′, k′).                                      (1)

``mask``, G(q̄, k̄), is the same for all pairs at a distance: the mask in closed form
(:mod:`posenc.metrics.closed_form`). ``key`` depends on the key and the distance, ``query`` on the
query and the distance. These three are of first order: each can be computed without that query and
that key having met. ``rest`` needs both. Where queries or keys do not vary, there is none.

The split is that of a function of two factors into a constant, two main effects and an interaction,
as in an analysis of variance; the means are of calibration text, so that the terms may correlate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from posenc.metrics.rotary import Floats, Layout, rotate

TERMS = ("mask", "key", "query", "rest")


def terms(
    queries: ArrayLike,
    keys: ArrayLike,
    mean_query: ArrayLike,
    mean_keys: ArrayLike,
    frequencies: ArrayLike,
    *,
    scaling: float | None = None,
    layout: Layout = "halves",
) -> Floats:
    """The four terms of (1) for all pairs of a document.

    Parameters
    ----------
    queries, keys
        [n_heads, tokens, d_head]: before rotation, at positions 0, 1, ...; a key for each query
        head.
    mean_query
        [n_heads, d_head].
    mean_keys
        [n_heads, tokens, d_head]: of the key at each position.
    frequencies, layout
        As of :func:`posenc.metrics.rotary.rotate`.
    scaling
        What products are multiplied by; None for 1 / √d_head.

    Returns
    -------
    float64 [4, n_heads, tokens, tokens]: in the order of ``TERMS``, by query and key; nats. Their
    sum is the score with rotation less that without.
    """
    q, k = np.asarray(queries, np.float64), np.asarray(keys, np.float64)
    mean_q, mean_k = np.asarray(mean_query, np.float64)[:, None], np.asarray(mean_keys, np.float64)
    mean_q = np.broadcast_to(mean_q, q.shape)  # [n_heads, tokens, d_head]
    places = np.arange(q.shape[-2])  # [tokens]

    def gain(a: Floats, b: Floats) -> Floats:  # [n_heads, tokens, d_head] each
        turned = (rotate(x, places, frequencies, layout) for x in (a, b))
        return next(turned) @ np.swapaxes(next(turned), -1, -2) - a @ np.swapaxes(b, -1, -2)

    pairs = ((mean_q, mean_k), (mean_q, k - mean_k), (q - mean_q, mean_k), (q - mean_q, k - mean_k))
    by = 1 / math.sqrt(q.shape[-1]) if scaling is None else scaling
    return by * np.stack([gain(*pair) for pair in pairs])
