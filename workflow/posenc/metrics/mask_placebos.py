"""Placebos of masks: as large as a mask, and as much chosen, but without what it is to explain.

Curves are [n_layers, n_heads, ...], with whatever belongs to a head behind: by distance, of the
first key. What belongs together is shuffled alike by the same seed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.sampling import Seed


def shuffled_over_heads(curves: ArrayLike, seed: Seed) -> NDArray:
    """Each head gets the curve of another, of any layer; each curve is used once.

    The shuffle is one random cycle through all heads, so that none keeps its own.

    Raises
    ------
    ValueError
        If there is one head alone.
    """
    curves = np.asarray(curves)  # [n_layers, n_heads, ...]
    flat = curves.reshape(-1, *curves.shape[2:])  # [n_layers * n_heads, ...]
    return flat[_cycle(len(flat), np.random.default_rng(seed))].reshape(curves.shape)


def shuffled_within_layers(curves: ArrayLike, seed: Seed) -> NDArray:
    """As :func:`shuffled_over_heads`, of the same layer."""
    curves, generator = np.asarray(curves), np.random.default_rng(seed)
    return np.stack([layer[_cycle(len(layer), generator)] for layer in curves])


def neighbours(curves: ArrayLike) -> NDArray:
    """Each head gets the curve of the next head of its layer; the last one, that of the first."""
    return np.roll(np.asarray(curves), -1, axis=1)


def one_per_layer(curves: ArrayLike) -> NDArray:
    """All heads of a layer get their mean curve."""
    curves = np.asarray(curves)  # [n_layers, n_heads, ...]
    return np.broadcast_to(curves.mean(axis=1, keepdims=True), curves.shape).copy()


def hashed_distances(ids: ArrayLike, longest: int, seed: int) -> NDArray[np.int64]:
    """Distances replaced by a hash of the two token ids, which knows no order.

    The two tokens count alike, and positions not at all: another order of the text is the same
    order of rows and columns. Over pairs of ids, a distance is as frequent as over the pairs of a
    causal text of the longest length: (n - δ) · 2 / (n (n + 1)).

    Parameters
    ----------
    ids
        int [tokens]: token ids, not negative.
    longest
        n: distances run from 0 to n - 1.
    seed
        Not negative; another one is another hash.

    Returns
    -------
    int64 [tokens, tokens]: symmetric.
    """
    share = (_hashed(ids, seed) >> np.uint64(11)) / 2.0**53  # [tokens, tokens], in [0, 1)
    pairs = np.arange(longest, 0, -1).cumsum()  # [longest]: up to each distance
    return np.searchsorted(pairs, share * pairs[-1], side="right")


def hashed_sides(ids: ArrayLike, seed: int) -> NDArray[np.int64]:
    """As :func:`hashed_distances`: 0 or 1, equally often, where there is a past and a future."""
    return (_hashed(ids, seed) & np.uint64(1)).astype(np.int64)


def _hashed(ids: ArrayLike, seed: int) -> NDArray[np.uint64]:
    """A hash of each pair of token ids, [tokens, tokens]; symmetric."""
    ids = np.asarray(ids).astype(np.uint64)  # [tokens]
    low, high = np.minimum(ids[:, None], ids), np.maximum(ids[:, None], ids)  # [tokens, tokens]
    return _mixed(_mixed(_mixed(np.array([seed], np.uint64)) ^ low) ^ high)


def _cycle(n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation [n] of one cycle."""
    if n < 2:
        raise ValueError("curves are shuffled among heads: one alone would keep its own")
    order = generator.permutation(n)  # [n]
    cycle = np.empty_like(order)
    cycle[order] = np.roll(order, 1)
    return cycle


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 of each number: Steele, Lea and Flood (2014), https://doi.org/10.1145/2660193.2660195."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
