"""Whether the offsets that scores predict are those where the attention is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, Seed, percentile_interval

Floats = NDArray[np.float64]


class Correlations(NamedTuple):
    """Correlations of two values of each head, with intervals over heads.

    Attributes
    ----------
    spearman, pearson
        Of ranks, and of the values; None where they are not defined.
    reason
        Why they are not.
    undefined
        Share of the resamples in which a value is the same for all heads, which are left out of the
        intervals.
    """

    spearman: Estimate | None
    pearson: Estimate | None
    reason: str | None
    undefined: float


class LayerCorrelation(NamedTuple):
    """The rank correlation of two values of each head, with an interval over layers.

    Attributes
    ----------
    spearman
        None where it is not defined.
    p
        Share of the permutations within layers, the identity among them, whose correlation is as
        far from 0 or further; None where there is no correlation.
    undefined
        Share of the resamples without a correlation, which are left out.
    """

    spearman: Estimate | None
    p: float | None
    undefined: float


class Agreement(NamedTuple):
    """Heads whose two offsets are the same.

    Attributes
    ----------
    share
        Of all heads.
    chance
        The same after permutations; its value is the exact mean, Σ_v n_predicted(v) n_observed(v) /
        n² within a model.
    p
        Share of permutations, the identity among them, that agree as much or more.
    """

    share: Estimate
    chance: Estimate
    p: float


def correlation(x: ArrayLike, y: ArrayLike) -> Floats:
    """Pearson's correlation along the last axis; NaN where all values of x or of y are the same.

    Parameters
    ----------
    x, y
        [..., n].

    Returns
    -------
    float64 [...].
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)  # [..., n] each
    # Rounding leaves no constant exactly at its mean, so the range decides.
    varies = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)  # [...]
    x = x - x.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    scale = np.sqrt(np.sum(x * x, axis=-1) * np.sum(y * y, axis=-1))  # [...]
    coefficient = np.full(varies.shape, np.nan)
    return np.divide(np.sum(x * y, axis=-1), scale, out=coefficient, where=varies).clip(-1, 1)


def within(values: ArrayLike, groups: ArrayLike, ranked: bool) -> Floats:
    """Deviations from the mean of each group, so that differences between groups do not count.

    Parameters
    ----------
    values
        [..., n].
    groups
        [n].
    ranked
        Whether ranks within the group, over its size, stand for the values; ties share theirs.

    Returns
    -------
    float64 [..., n]; exactly 0 in a group without differences.
    """
    from scipy.stats import rankdata

    values, groups = np.asarray(values, np.float64), np.asarray(groups)
    deviations = np.zeros(values.shape)
    for group in np.unique(groups):
        inside = groups == group  # [n]
        part = values[..., inside]  # [..., n of the group]
        varies = np.ptp(part, axis=-1, keepdims=True) > 0  # [..., 1]
        if ranked:
            part = rankdata(part, axis=-1) / part.shape[-1]
        deviations[..., inside] = np.where(varies, part - part.mean(axis=-1, keepdims=True), 0)
    return deviations


def correlated(x: ArrayLike, y: ArrayLike, groups: ArrayLike, *, ranked: bool) -> Floats:
    """Correlation of deviations from the mean of each group, see :func:`within`, [...].

    NaN where all values of a group are the same, in every group.
    """
    return correlation(within(x, groups, ranked), within(y, groups, ranked))


def compare(
    predicted: ArrayLike,
    observed: ArrayLike,
    *,
    samples: int,
    confidence: float,
    seed: Seed,
    groups: ArrayLike | None = None,
) -> Correlations:
    """Correlate two values of each head, with percentile intervals over resampled heads.

    Parameters
    ----------
    predicted, observed
        [heads].
    samples, confidence, seed
        Of the bootstrap.
    groups
        [heads]: model of each. Heads are resampled within their model, and correlated by their
        deviations from its mean, see :func:`within`: a decoder cannot look ahead, which would
        correlate whatever is predicted.

    Raises
    ------
    ValueError
        If the shapes differ, or a value is not finite.
    """
    predicted, observed, groups = _checked(predicted, observed, groups)
    for which, values in (("predicted", predicted), ("found", observed)):
        if not _varies(values, groups):
            reason = f"the {which} value is the same for all heads: a correlation is not defined"
            return Correlations(None, None, reason, 1.0)
    generator = np.random.default_rng(seed)
    drawn = _resampled(groups, samples, generator)  # [samples, heads]

    def estimate(*, ranked: bool) -> tuple[Estimate, float]:
        value = float(correlated(predicted, observed, groups, ranked=ranked))
        replicates = correlated(
            predicted[drawn], observed[drawn], groups, ranked=ranked
        )  # [samples]
        return _interval(value, replicates, confidence)

    spearman, _ = estimate(ranked=True)
    pearson, undefined = estimate(ranked=False)
    return Correlations(spearman, pearson, None, undefined)


def over_layers(
    predicted: ArrayLike,
    observed: ArrayLike,
    layers: ArrayLike,
    *,
    samples: int,
    confidence: float,
    seed: Seed,
    groups: ArrayLike | None = None,
) -> LayerCorrelation:
    """The rank correlation of two values of each head, with layers as the units of chance.

    The heads of one layer read the same input: resampled one by one they look like more evidence
    than they are, and what all heads of a layer share correlates without any head being predicted.

    Parameters
    ----------
    predicted, observed
        [heads].
    layers
        [heads]: layer of each.
    samples, confidence, seed
        Of the bootstrap over layers, whose heads are taken all, and of the permutations of the
        predicted values among the heads of a layer.
    groups
        [heads]: model of each; correlated by deviations from its mean, see :func:`within`. Layers
        are resampled within their model.

    Raises
    ------
    ValueError
        If the shapes differ, or a value is not finite.
    """
    predicted, observed, groups = _checked(predicted, observed, groups)
    layers = np.asarray(layers)  # [heads]
    if layers.shape != predicted.shape:
        raise ValueError(f"shape {layers.shape} of layers is not {predicted.shape}, of the heads")
    if not (_varies(predicted, groups) and _varies(observed, groups)):
        return LayerCorrelation(None, None, 1.0)
    generator = np.random.default_rng(seed)
    value = float(correlated(predicted, observed, groups, ranked=True))
    units: dict[Any, list[NDArray[np.int64]]] = {}  # by model, the heads of each layer
    for group, layer in sorted(set(zip(groups.tolist(), layers.tolist(), strict=True))):
        units.setdefault(group, []).append(np.flatnonzero((groups == group) & (layers == layer)))
    # Draws with as many heads of each model are correlated at once: all, where layers are alike.
    alike: dict[bytes, list[NDArray[np.int64]]] = {}
    for _ in range(samples):
        drawn = np.concatenate(
            [of[n] for of in units.values() for n in generator.integers(len(of), size=len(of))]
        )  # [heads drawn]
        alike.setdefault(groups[drawn].tobytes(), []).append(drawn)
    replicates = np.concatenate(
        [
            correlated(predicted[index], observed[index], groups[index[0]], ranked=True)
            for index in map(np.stack, alike.values())  # [draws, heads drawn]
        ]
    )  # [samples]
    permuted = np.tile(predicted, (samples, 1))  # [samples, heads]
    for heads in (heads for of in units.values() for heads in of):
        permuted[:, heads] = generator.permuted(permuted[:, heads], axis=1)
    chance = correlated(permuted, observed, groups, ranked=True)  # [samples]
    p = float((1 + np.sum(np.abs(chance) >= abs(value) - 1e-12)) / (1 + samples))
    estimate, undefined = _interval(value, replicates, confidence)
    return LayerCorrelation(estimate, p, undefined)


def agreement(
    predicted: ArrayLike,
    observed: ArrayLike,
    *,
    samples: int,
    confidence: float,
    seed: Seed,
    groups: ArrayLike | None = None,
) -> Agreement:
    """Share of heads whose two offsets are the same, against permuted heads.

    Parameters
    ----------
    predicted, observed
        [heads]: whole offsets.
    samples, confidence, seed
        Of the bootstrap over heads, and of the permutations.
    groups
        [heads]: model of each. Heads are resampled, and permuted, within their model.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or there is no head.
    """
    predicted, observed, groups = _checked(predicted, observed, groups)
    if len(predicted) == 0:
        raise ValueError("there is no head")
    generator = np.random.default_rng(seed)
    equal = predicted == observed  # [heads]
    drawn = _resampled(groups, samples, generator)  # [samples, heads]
    share = percentile_interval(equal.mean(), equal[drawn].mean(axis=1), confidence)
    permuted, expected = np.zeros(samples), 0.0
    for group in np.unique(groups):
        inside = np.flatnonzero(groups == group)  # [heads of the model]
        x, y = predicted[inside], observed[inside]  # [heads of the model] each
        order = generator.permuted(np.tile(np.arange(len(x)), (samples, 1)), axis=1)
        permuted += (x == y[order]).sum(axis=1)
        expected += (x[:, None] == y).mean(axis=1).sum()
    counts = permuted.round()  # [samples]
    return Agreement(
        share=share,
        chance=percentile_interval(expected / len(predicted), counts / len(predicted), confidence),
        p=float((1 + np.sum(counts >= equal.sum())) / (1 + samples)),
    )


def _varies(values: Floats, groups: NDArray) -> bool:
    """Whether the values differ within a group."""
    return bool(within(values, groups, ranked=False).any())


def _interval(value: float, replicates: Floats, confidence: float) -> tuple[Estimate, float]:
    """An estimate with its percentile interval, and the share of replicates that are NaN."""
    defined = ~np.isnan(replicates)  # [samples]
    bounds = replicates[defined] if defined.any() else np.array([value])
    return percentile_interval(value, bounds, confidence), float(1 - defined.mean())


def _checked(
    predicted: ArrayLike, observed: ArrayLike, groups: ArrayLike | None
) -> tuple[Floats, Floats, NDArray]:
    predicted, observed = np.asarray(predicted, np.float64), np.asarray(observed, np.float64)
    groups = np.zeros(len(predicted), np.int64) if groups is None else np.asarray(groups)
    if predicted.ndim != 1 or not predicted.shape == observed.shape == groups.shape:
        raise ValueError(
            f"shapes {predicted.shape}, {observed.shape} and {groups.shape} of predicted and found "
            f"values and groups are not the same [heads]"
        )
    if not (np.isfinite(predicted).all() and np.isfinite(observed).all()):
        raise ValueError("predicted and found values must be finite")
    return predicted, observed, groups


def _resampled(
    groups: NDArray,  # [heads]
    samples: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Indices [samples, heads]: each head stands for a drawn one of its group."""
    drawn = np.empty((samples, len(groups)), np.int64)
    for group in np.unique(groups):
        inside = np.flatnonzero(groups == group)  # [heads of the group]
        drawn[:, inside] = inside[generator.integers(len(inside), size=(samples, len(inside)))]
    return drawn
