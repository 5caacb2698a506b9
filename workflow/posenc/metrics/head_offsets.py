"""Where the heads of a layer would look if there were nothing but position.

All that :mod:`posenc.metrics.relative_attention` says about a head, for all heads of a layer: pairs
of signals, and scores and attention by offset, key minus query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.by_offset import profile_by_offset, score_by_offset
from posenc.metrics.heads import excess_over_uniform, peak_offset
from posenc.metrics.relative_attention import (
    Floats,
    PairSpectra,
    cross_correlations,
    head_factors,
    pair_spectra,
    trace_by_offset,
)


@dataclass(frozen=True, eq=False)
class HeadOffsets:
    """The heads of one layer.

    Attributes
    ----------
    scores
        float64 [n_heads, tokens, tokens]: query, key; scaled.
    singular
        float64 [n_heads, r]: singular values of W^Q W^Kᵀ, falling.
    score, mass
        float64 [n_heads, 2 offsets + 1]: mean score and attention by offset; NaN where no query
        sees the key.
    uniform
        float64 [2 offsets + 1]: ``mass`` of a head that attends to all keys alike.
    score_peak, mass_peak
        int64 [n_heads]: offsets where the score is highest, and where the mass is furthest above
        that of a uniform pattern.
    pairs
        Spectra of the pairs of signals, [n_heads, r] each.
    contribution
        float64 [n_heads, r]: what each pair adds to the score at its own lag.
    residuals
        How far identities are from holding, relative to the largest score: ``scores`` rebuilt from
        the factors, and ``trace``, the sums over diagonals from cross-correlations.
    """

    scores: Floats
    singular: Floats
    score: Floats
    mass: Floats
    uniform: Floats
    score_peak: NDArray[np.int64]
    mass_peak: NDArray[np.int64]
    pairs: PairSpectra
    contribution: Floats
    residuals: dict[str, float]


def head_offsets(
    x: ArrayLike, query: ArrayLike, key: ArrayLike, offsets: int, *, causal: bool
) -> HeadOffsets:
    """Measure the heads of one layer.

    Parameters
    ----------
    x
        [tokens, d]: what the heads read at each position.
    query, key
        [n_heads, d, d_head]: W^Q and W^K.
    offsets
        Offsets from -offsets to +offsets are kept.
    causal
        Whether a query sees the keys up to its own only, or all.
    """
    x, query, key = (np.asarray(array, np.float64) for array in (x, query, key))
    scale = math.sqrt(query.shape[-1])
    factors = head_factors(query, key)
    a, b = x @ factors.query, x @ factors.key  # [n_heads, tokens, r] each
    queries, keys = x @ query, x @ key  # [n_heads, tokens, d_head] each
    scores = queries @ np.swapaxes(keys, -1, -2)  # [n_heads, tokens, tokens]
    singular = factors.singular  # [n_heads, r]
    rebuilt = (a * singular[:, None]) @ np.swapaxes(b, -1, -2)  # [n_heads, tokens, tokens]
    # Σ_j s_j xcorr_j(t), [n_heads, 2 offsets + 1].
    traces = np.einsum("htr,hr->ht", cross_correlations(a, b, offsets), singular)
    direct = np.stack(
        [trace_by_offset(q, k, offsets) for q, k in zip(queries, keys, strict=True)]
    )  # [n_heads, 2 offsets + 1]
    size = np.abs(scores).max(axis=(1, 2))  # [n_heads]
    scaled = scores / scale  # [n_heads, tokens, tokens]
    by_offset = score_by_offset(scaled, offsets, causal)  # [n_heads, 2 offsets + 1]
    mass, uniform = profile_by_offset(scaled, offsets, causal)
    pairs = pair_spectra(a, b)
    return HeadOffsets(
        scores=scaled,
        singular=singular,
        score=by_offset,
        mass=mass,
        uniform=uniform,
        score_peak=peak_offset(by_offset),
        mass_peak=peak_offset(excess_over_uniform(mass, uniform)),
        pairs=pairs,
        contribution=singular * pairs.amplitude / scale,
        residuals={
            "scores": float((np.abs(rebuilt - scores).max(axis=(1, 2)) / size).max()),
            "trace": float((np.abs(traces - direct).max(axis=1) / (size * len(x))).max()),
        },
    )
