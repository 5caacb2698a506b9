"""Measures of float32 arrays are computed in float64, and lists give the same as arrays.

Casts come first, so float32 numbers give the bits that the same numbers give in float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from posenc.metrics import (
    bootstrap,
    by_offset,
    causal_variance,
    choices,
    closed_form,
    components,
    downstream,
    geometry,
    hard_attention,
    head_offsets,
    heads,
    independent,
    lags,
    moments,
    normalisation,
    norms,
    null_tables,
    patterns,
    perplexity,
    position_means,
    position_moments,
    position_regression,
    position_scores,
    probes,
    readback,
    recovery,
    relative_attention,
    rotary,
    scaling,
    score_parts,
    seeds,
    similarity,
    spectra,
    stories,
    subspaces,
    superposition,
    swaps,
    table_waves,
)

DRAWN = {"samples": 50, "confidence": 0.9, "seed": 0}
GROUPS, PLACES = np.repeat([0, 1, 2], 4), np.tile([0, 1, 2, 3], 3)


def drawn(*shape: int, positive: bool = False) -> np.ndarray:
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return (np.abs(values) + 0.1 if positive else values).astype(np.float32)


def pattern(*shape: int) -> np.ndarray:
    """Rows of sixteenths, which sum to exactly 1 in float32."""
    counts = np.random.default_rng(0).multinomial(16, np.ones(shape[-1]) / shape[-1], shape[:-1])
    return (counts / 16).astype(np.float32)


def of_positions(content: Any, turned: Any, intact: Any, pairs: Any) -> list[np.ndarray]:
    means = position_means.PositionMeans(3)
    means.add(
        {"content_queries": content, "content_keys": turned, "queries": intact, "keys": intact}
    )
    return [*means.absolute(pairs, causal=True)]


T, V, G = drawn(12, 6), drawn(12, positive=True), drawn(6)
SQUARE, HEADS = drawn(9, 9), drawn(2, 9, 9)
MASS, FLAT = drawn(2, 7, positive=True), drawn(7, positive=True)
Q, K = drawn(2, 12, 4), drawn(2, 12, 4) + np.float32(0.3)
SHARES, LINE = pattern(5), drawn(5)
EPS = 1e-5
# By name: a measure of the arrays that follow it.
CASES: dict[str, tuple[Callable[..., Any], tuple]] = {
    "median_bootstrap": (lambda x: bootstrap.median_bootstrap(x, **DRAWN), (V,)),
    "paired_ratio_bootstrap": (
        lambda x, y, n: bootstrap.paired_ratio_bootstrap(x, y, n, **DRAWN), (V, V[::-1], V)),
    "position_variance": (causal_variance.position_variance, (drawn(3, 8, 4),)),
    "mc2": (choices.mc2, (drawn(3), drawn(4))),
    "rotary_curve": (
        lambda q, k, f: closed_form.rotary_curve(q, k, f, np.arange(5)),
        (drawn(4), drawn(4) + np.float32(1), drawn(2, positive=True))),
    "absolute_bias": (closed_form.absolute_bias, (Q, K, drawn(2, 1, 4), drawn(2, 1, 4) * 2)),
    "distance_sums": (lambda x: closed_form.distance_sums(x, causal=True), (HEADS,)),
    "r_squared": (closed_form.r_squared, (MASS, MASS[::-1], MASS)),
    "principal_components": (lambda x: components.principal_components(x, 3), (T,)),
    "independent": (lambda x: independent.independent_components(x, seed=0).sources, (T,)),
    "amari_index": (independent.amari_index, (drawn(3, 3), drawn(3, 3) + np.float32(1))),
    "variance_between": (lambda x: components.variance_between(x, GROUPS), (T,)),
    "canonical": (components.canonical_correlations, (drawn(40, 3), drawn(40, 2))),
    "relative_changes": (downstream.relative_changes, (T, T[::-1])),
    "offset_means": (geometry.offset_means, (SQUARE,)),
    "toeplitz_share": (geometry.toeplitz_share, (SQUARE,)),
    "standardised": (hard_attention.standardised, (T,)),
    "scaled_to": (hard_attention.scaled_to, (T, G)),
    "by_distance": (lambda s, w: closed_form.by_distance(s, w, causal=False), (HEADS, SQUARE**2)),
    "by_pair": (lambda r, f: closed_form.by_pair(r, f, 5), (drawn(2, 2, 6), drawn(2, 6))),
    "covariances": (score_parts.covariances, (drawn(2, 4, 4, positive=True),)),
    "with_mask": (score_parts.with_mask, (drawn(2, 4, 4), drawn(2, 4))),
    "position_means": (
        of_positions,
        (drawn(1, 2, 5, 4), drawn(2, 2, 5, 4)[1:], drawn(3, 2, 5, 4)[2:], drawn(4, 4) ** 2)),
    "as_complex": (lambda x: rotary.as_complex(x, 2), (T,)),
    "scaled_spectrum": (
        lambda s, p, g: normalisation.scaled_spectrum(s, p, g, 0.9),
        (drawn(3, 12, positive=True), T, G)),
    "correlation_of_moments": (
        moments.correlation_of_moments,
        (np.stack([0 * T[0] + 12, *(array.sum(axis=0) for array in (
            T, T[::-1], T**2, T[::-1] ** 2, T * T[::-1]))]),)),
    "held_out_moments": (
        lambda x, y: components.held_out_moments(x, y, np.arange(40) // 4, folds=2, seed=0),
        (drawn(40, 3), drawn(40, 2))),
    "gram": (geometry.gram, (T,)),
    "cosine_map": (geometry.cosine_map, (T,)),
    "toeplitz_residual": (geometry.toeplitz_residual, (SQUARE,)),
    "nearest_rows": (lambda x, t, o: readback.nearest_rows(x, t, o, EPS), (T, T[::-1], G)),
    "guess_test": (lambda x: stories.guess_test(x, 32, 0.3), (pattern(4),)),
    "simulate": (
        lambda p, f, b: hard_attention.simulate(p, f, b, 2, 3, np.random.default_rng(0)),
        (SHARES, LINE, LINE[:2])),
    "last_rows": (table_waves.last_rows, (T,)),
    "explained_share": (table_waves.explained_share, (T, drawn(12, 2))),
    "position_error": (
        lambda x: position_regression.absolute_error(x, 2, np.random.default_rng(0)),
        (T * np.float32(99) + np.float32(1e6),)),
    "log_likelihood": (hard_attention.log_likelihood, (T, G)),
    "readouts": (hard_attention.readouts, (SHARES, drawn(5, 6), G)),
    "soft_gradient": (hard_attention.soft_gradient, (SHARES, drawn(5, 6), G)),
    "total_variance": (hard_attention.total_variance, (SHARES, LINE, np.float32(0.3))),
    "variance_along": (
        hard_attention.variance_along, (SHARES, LINE, np.float32(0.3), drawn(5)[::-1])),
    "head_offsets": (
        lambda x, q, k: head_offsets.head_offsets(x, q, k, 3, causal=True),
        (drawn(12, 5), drawn(2, 5, 4), drawn(2, 5, 4) + np.float32(0.3))),
    "mean_offset": (heads.mean_offset, (MASS,)),
    "excess_over_uniform": (heads.excess_over_uniform, (MASS, FLAT)),
    "preference": (heads.preference, (MASS, FLAT)),
    "score_by_offset": (lambda x: by_offset.score_by_offset(x, 3, True), (HEADS,)),
    "correlation": (lags.correlation, (V, V[::-1] ** 2)),
    "within": (lambda x: lags.within(x, GROUPS, False), (V,)),
    "share_between": (lambda a, b: moments.share_between(a, b, 12, 3), (V, V / 2)),
    "mean_and_sd": (moments.mean_and_sd, (V,)),
    "parts": (lambda x, g, b: normalisation.parts(x, g, b, EPS), (T, G, G[::-1])),
    "carried": (
        lambda x, p, g, b: next(normalisation.carried(
            [x], [(g, b)], ["tokens"], p, eps=EPS, is_stream=True)), (T, T[::-1], G, G[::-1])),
    "scale_spread": (lambda x: normalisation.scale_spread(x, PLACES, GROUPS, 0.9), (V,)),
    "between": (
        lambda x: position_moments.Moments.of(np.stack([x]), PLACES, GROUPS, 1).shares(0), (T,)),
    "amplitudes": (normalisation.amplitudes, (T,)),
    "norm_r2": (lambda x, p: norms.norm_r2(x, p, seed=0, folds=2)["linear"], (V, V[::-1] ** 2)),
    "centred": (lambda x: norms.centred_and_deviation(x, EPS), (T,)),
    "shuffled_rows": (lambda x: null_tables.shuffled_rows(x, 0), (T,)),
    "gaussian_rows": (lambda x: null_tables.gaussian_rows(x, 0), (T,)),
    "spread": (null_tables.spread, (V,)),
    "query_pattern": (patterns.query_pattern, (drawn(4), drawn(9, 4))),
    "entropy": (perplexity.entropy, (SHARES,)),
    "sequence_perplexity": (lambda x: perplexity.sequence_perplexity(x, PLACES + 2), (V,)),
    "bits_per_byte": (lambda x: perplexity.bits_per_byte(x, PLACES + 2, **DRAWN), (V,)),
    "position_errors": (
        lambda x, p: probes.position_errors(
            x, p, GROUPS, folds=3, hidden_units=1, epochs=1, seed=0, relu_control=False),
        (T, V)),
    "random_like": (
        lambda x: position_regression.random_like(x, np.random.default_rng(0)), (T,)),
    "distance_parts": (lambda x: position_scores.distance_parts(x, causal=True), (HEADS,)),
    "principal_directions": (lambda x: subspaces.principal_directions(x, 0.7), (T,)),
    "by_bucket": (lambda x: recovery.by_bucket(x, 3, **DRAWN), (T,)),
    "augmented": (relative_attention.augmented, (drawn(4, 3), drawn(3))),
    "head_factors": (relative_attention.head_factors, (drawn(6, 3), drawn(6, 3) * 2)),
    "position_input": (
        lambda *x: relative_attention.position_input(*x, EPS), (T, G, G[::-1], G * 2)),
    "trace_by_offset": (lambda q, k: relative_attention.trace_by_offset(q, k, 3), (Q[0], K[0])),
    "cross_correlations": (
        lambda a, b: relative_attention.cross_correlations(a, b, 3), (Q[0], K[0])),
    "pair_spectra": (relative_attention.pair_spectra, (Q[0], K[0])),
    "null_rotation": (
        lambda q, k, x: relative_attention.null_rotation_demonstration(q, k, x, 0),
        (drawn(6, 3), drawn(6, 3) * 2, T)),
    "banded": (lambda f: rotary.banded(f, slice(2)), (G,)),
    "rotate": (rotary.rotate, (drawn(12, 4), V, drawn(2, positive=True))),
    "rotary_scores": (
        rotary.scores, (drawn(12, 4), drawn(12, 4) * 2, V, drawn(2, positive=True))),
    "dot_products": (scaling.dot_products, (T, T[::-1])),
    "mean_interval": (lambda x: scaling.mean_interval(x, 0.9), (V,)),
    "median_interval": (lambda x: scaling.median_interval(x, 0.9), (V,)),
    "of_scores": (lambda x: scaling.of_scores(x, 0.9), (T,)),
    "score_split": (score_parts.split, (HEADS, HEADS[::-1], HEADS**2)),
    "score_moments": (score_parts.moments, (drawn(3, 2, 9, 9), SQUARE**2)),
    "over_seeds": (seeds.over_seeds, (V,)),
    "difference_over_seeds": (seeds.difference_over_seeds, (V, V[::-1] ** 2)),
    "rescaled": (similarity.rescaled, (V / 9, V[::-1] / 9)),
    "gaussian_null_density": (lambda t: similarity.gaussian_null_density(t, 5), (V / 9,)),
    "histogram": (lambda x: similarity.histogram(x, 5), (V / 9,)),
    "locked_share": (lambda a, b: spectra.locked_share(a, b, 5), (V, V[::-1])),
    "additivity_gap": (lambda *x: superposition.additivity_gap(*x, 0.3), (T, T[::-1], T**2)),
    "preferred": (swaps.preferred, (G,)),
}  # fmt: skip


def numbers(value: Any) -> list[np.ndarray]:
    """All numbers of a result, in order."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in numbers(part)]
    return [] if value is None or isinstance(value, str) else [np.asarray(value)]


@pytest.mark.parametrize("name", CASES)
def test_float32_is_computed_in_float64(name):
    measure, arrays = CASES[name]
    expected = numbers(measure(*(np.asarray(array, np.float64) for array in arrays)))
    assert expected
    lists = [array.tolist() for array in arrays]
    for given in (arrays, lists):
        for ours, theirs in zip(numbers(measure(*given)), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
