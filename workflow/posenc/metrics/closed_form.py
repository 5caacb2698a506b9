"""A mask in place of positions, in closed form from mean queries and keys (row F3).

Distances are counted back from the query, δ = i - j for query i and key j; d is d_head.

**Rotary positions.** Queries q and keys k are those of the intact model before rotation. With it, a
score is qᵀ R(-δ) k / √d (:mod:`posenc.metrics.rotary`; R(δ) where offsets count from query to key);
without, qᵀ k / √d. So position adds qᵀ (R(-δ) - I) k / √d, which is bilinear: with the means q̄ and
k̄ of the pairs at a distance, its mean over them is

    b(δ) + tr((R(-δ) - I) C(δ)) / √d,    b(δ) = q̄ᵀ (R(-δ) - I) k̄ / √d,    C(δ) = cov(k, q).    (1)

The mask is b, with means over all tokens in place of those at a distance. What is dropped is C, the
covariance of the query and the key of one pair, and the drift of means with position. Hence it is

- the mean difference exactly, where query and key are uncorrelated at each distance (as where they
  are independent) and their means are the same everywhere;
- the difference itself, for every pair, where queries and keys do not vary.

What rotation makes of the queries and keys of the layers above is not part of it.

With pair c of features as complex numbers, and w_c = conj(q̄_c) k̄_c / √d = A_c exp(i φ_c), b is a
trigonometric series: a frequency θ_c adds A_c (cos(θ_c δ - φ_c) - cos φ_c), highest at φ_c / θ_c.
It holds at any distance, and is 0 at δ = 0. Mao et al. (2026), https://arxiv.org/abs/2604.04921:
queries and keys before rotation concentrate around centres, which fix the preferred distances by
such a series; they rank cached keys by it.

The first key, on which attention rests, is unlike the others: it has its own mean, and the curve
that (1) gives with it is read at δ = i.

**Learned positions.** Let q = q⁰ + u be a query of the intact model, q⁰ that of the same token in
the model without positions, and k = k⁰ + v. Position adds (qᵀ k - q⁰ᵀ k⁰) / √d; the mask is

    b(m, n) = (q̄(m)ᵀ k̄(n) - q̄⁰ᵀ k̄⁰) / √d = (ū(m)ᵀ k̄⁰ + q̄(m)ᵀ v̄(n)) / √d,                  (2)

with the means ū(m) and v̄(n) over tokens of the position parts at a position, and q̄(m) = q̄⁰ + ū(m).
It is exact where (1) is, and drops the same: covariances of the two tokens of a pair, and the drift
of q̄⁰ and k̄⁰ with position, unless they are given by position. The first term is the same for all
keys of a query, so that softmax does not see it in b(m, n). It does see it in b(δ), the mean of (2)
over the queries that have a key at that distance: far keys have late queries alone. It can be left
out.

**Temperature.** A mask added to the scores leaves the content qᵀ k / √d as strong as it was. With a
temperature T of a head, they are qᵀ k / (T √d) + b: T divides the content, not the mask.
:func:`posenc.metrics.score_parts.temperature` gives that of least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.rotary import Floats, Layout, as_complex


@dataclass(frozen=True, eq=False)
class Means:
    """Mean vectors of the heads of a layer.

    Attributes
    ----------
    query, key, first_key
        float64 [n_heads, d_head]: of queries, of keys, and of the first keys of documents. No other
        mean has first tokens in it: a decoder's first query sees nothing but itself.
    """

    query: Floats
    key: Floats
    first_key: Floats


def series(
    query: ArrayLike, key: ArrayLike, r: int, layout: Layout = "halves"
) -> NDArray[np.complex128]:
    """Amplitude and phase of each frequency, as a complex number w = A exp(i φ).

    Parameters
    ----------
    query, key
        [..., d_head]: mean vectors.
    r, layout
        Pairs of features that are turned, and which they are.

    Returns
    -------
    complex128 [..., r]: modulus in nats, angle in radians.
    """
    pairs = np.conj(as_complex(query, r, layout)) * as_complex(key, r, layout)  # [..., r]
    return pairs / math.sqrt(np.shape(query)[-1])


def rotary_curve(
    query: ArrayLike,
    key: ArrayLike,
    frequencies: ArrayLike,
    distances: ArrayLike,
    layout: Layout = "halves",
) -> Floats:
    """What rotation adds to the scores by distance: b of (1), by its series.

    Parameters
    ----------
    query, key
        [..., d_head]: mean vectors; the first keys' for the curve of the first key.
    frequencies
        [r]: radians per token.
    distances
        [n]: tokens from the key to the query; negative for keys that come after.

    Returns
    -------
    float64 [..., n]: nats.
    """
    angles = np.asarray(distances)[:, None] * np.asarray(frequencies, np.float64)  # [n, r]
    w = series(query, key, angles.shape[1], layout)  # [..., r]
    return w.real @ (np.cos(angles) - 1).T + w.imag @ np.sin(angles).T


def rotary_curves(
    means: Means, frequencies: ArrayLike, n: int, *, causal: bool, layout: Layout = "halves"
) -> tuple[Floats, Floats]:
    """:func:`rotary_curve` at the distances below n, in the form of :func:`by_distance`.

    Parameters
    ----------
    means
        Of heads, [..., d_head] each.
    frequencies, layout
        As there.
    n
        Number of distances.
    causal
        Whether there is one side, the past, or the future too.

    Returns
    -------
    relative
        float64 [..., sides, n]: nats.
    first
        float64 [..., n]: nats.
    """
    distances = np.arange(n)
    sides = [
        rotary_curve(means.query, means.key, frequencies, sign * distances, layout)
        for sign in ((1,) if causal else (1, -1))
    ]
    first = rotary_curve(means.query, means.first_key, frequencies, distances, layout)
    return np.stack(sides, axis=-2), first


def absolute_bias(
    query: ArrayLike,
    key: ArrayLike,
    content_query: ArrayLike,
    content_key: ArrayLike,
    *,
    row_term: bool = True,
) -> Floats:
    """What learned positions add to the scores by pair of positions: b of (2).

    Parameters
    ----------
    query, key
        [n_heads, positions, d_head]: mean position parts, ū and v̄.
    content_query, content_key
        [n_heads, 1, d_head]: mean queries and keys without positions, q̄⁰ and k̄⁰; or by position,
        [n_heads, positions, d_head], where they differ (the first token's, often).
    row_term
        Whether ū(m)ᵀ k̄⁰, with the mean over positions for k̄⁰, is part of it.

    Returns
    -------
    float64 [n_heads, positions, positions]: query, key; nats.
    """
    u, v, q, k = (np.asarray(x, np.float64) for x in (query, key, content_query, content_key))
    common = k.mean(axis=-2, keepdims=True)  # [n_heads, 1, d_head]
    bias = (q + u) @ np.swapaxes(v, -1, -2) + u @ np.swapaxes(k - common, -1, -2)
    if row_term:
        bias = bias + u @ np.swapaxes(common, -1, -2)
    return bias / math.sqrt(u.shape[-1])


def visible_pairs(lengths: Sequence[int], *, causal: bool) -> Floats:
    """How many documents have each pair of positions that see each other.

    Parameters
    ----------
    lengths
        Tokens of each document.
    causal
        Whether a query sees the keys up to its own only.

    Returns
    -------
    float64 [n, n]: query, key; n is the longest length.
    """
    place = np.arange(max(lengths))  # [n]
    reached = np.greater.outer(lengths, place).sum(axis=0)  # [n]
    seen = reached[np.maximum.outer(place, place)].astype(np.float64)  # [n, n]
    return np.tril(seen) if causal else seen


def distance_sums(values: ArrayLike, *, causal: bool, first: bool = True) -> Floats:
    """Sums over the pairs at each distance; those of documents may be added.

    Parameters
    ----------
    values
        [..., n, n]: query, key; 0 for pairs that do not see each other.
    causal
        Whether there is one side, the past, or the future too.
    first
        Whether the first key is left out.

    Returns
    -------
    float64 [..., sides, n]: past, and future, by distance. Distance 0 is on both sides.
    """
    values = np.asarray(values, np.float64)  # [..., n, n]
    n = values.shape[-1]
    totals = np.zeros((*values.shape[:-2], 1 if causal else 2, n))  # [..., sides, n]
    for side, distance in np.ndindex(totals.shape[-2:]):
        offset = distance if side else -distance  # key minus query
        diagonal = np.diagonal(values, offset, -2, -1)  # [..., pairs]
        # On the diagonal and left of it, the pair with the first key comes first.
        totals[..., side, distance] = diagonal[..., first and offset <= 0 :].sum(axis=-1)
    return totals


def by_distance(
    sums: ArrayLike, weights: ArrayLike, *, causal: bool, first: bool = True
) -> tuple[Floats, Floats]:
    """Means over the pairs at each distance: of scores with minus without position, or of (2).

    Parameters
    ----------
    sums, weights
        [n_heads, n, n], or [n, n] for weights: query, key. Weighted sums over documents of the
        values of a pair, and of their weights (how many there were); 0 for pairs that do not see
        each other.
    causal
        Whether there is one side, the past, or the future too.
    first
        Whether the first key is left out of the means.

    Returns
    -------
    relative
        float64 [n_heads, sides, n]: past, and future, by distance. NaN where there is no pair.
    first
        float64 [n_heads, n]: of the first key, by the query's position. NaN where there is none.
    """
    sums = np.asarray(sums, np.float64)  # [n_heads, n, n]
    weights = np.broadcast_to(np.asarray(weights, np.float64), sums.shape)
    totals = (distance_sums(values, causal=causal, first=first) for values in (sums, weights))
    return _means(*totals), _means(sums[:, :, 0], weights[:, :, 0])


def by_pair(relative: ArrayLike, first: ArrayLike, tokens: int) -> Floats:
    """The mask that curves by distance make, as :func:`by_distance` gives them.

    Parameters
    ----------
    relative
        [..., sides, n]: past, and future, by distance.
    first
        [..., n]: of the first key, by the query's position.
    tokens
        Of a document, n at most.

    Returns
    -------
    float64 [..., tokens, tokens]: query, key. Where there is no future, it is 0 there.
    """
    relative, first = np.asarray(relative, np.float64), np.asarray(first, np.float64)
    places = np.arange(tokens)
    distance = places[:, None] - places  # [tokens, tokens]
    past = relative[..., 0, :][..., np.maximum(distance, 0)]  # [..., tokens, tokens]
    sides = relative.shape[-2]
    future = relative[..., 1, :][..., np.maximum(-distance, 0)] if sides > 1 else 0.0
    mask = np.where(distance >= 0, past, future)
    mask[..., 0] = first[..., :tokens]
    return mask


def r_squared(
    predicted: ArrayLike, measured: ArrayLike, weights: ArrayLike | None = None
) -> Floats:
    """Share of a measured curve's variance that a predicted one explains, nothing being fitted.

    1 - Σ w (y - ŷ)² / Σ w (y - ȳ)²: not a squared correlation, so it is negative where the curve's
    mean is the better prediction.

    Parameters
    ----------
    predicted, measured
        [..., distances]; those that are NaN in the measured one do not count.
    weights
        [distances], such as numbers of pairs; None: all distances alike.

    Returns
    -------
    float64 [...], at most 1; NaN where the measured curve does not vary.
    """
    predicted, measured = np.asarray(predicted, np.float64), np.asarray(measured, np.float64)
    there = np.isfinite(measured)  # [..., distances]
    w = there * (1.0 if weights is None else np.asarray(weights, np.float64))  # [..., distances]
    y, predicted = np.where(there, measured, 0), np.where(there, predicted, 0)
    mean = _means(np.sum(w * y, axis=-1), np.sum(w, axis=-1))[..., None]  # [..., 1]
    missed = np.sum(w * np.square(y - predicted), axis=-1)
    total = np.sum(w * np.square(y - mean), axis=-1)  # [...]
    varies = np.ptp(np.where(w > 0, y, mean), axis=-1) > 0
    return 1 - _means(missed, np.where(varies, total, 0))


def _means(sums: Floats, weights: Floats) -> Floats:
    """Weighted means; NaN where there is no weight."""
    return np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0)
