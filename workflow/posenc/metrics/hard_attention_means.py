"""Means over queries of what hard attention's gradient does, with intervals from documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, percentile_interval, ratio_replicates
from posenc.metrics.hard_attention import (
    baselines,
    enumerated_gradient,
    log_likelihood,
    readouts,
    simulate,
    soft_gradient,
    total_variance,
    variance_along,
)
from posenc.metrics.moments import sums_by_group

Row = dict[str, ArrayLike]
"""What was found of a query: numbers and arrays by name, [baselines] or [samples, baselines]."""
Columns = dict[str, NDArray[np.float64]]
"""What was found of each query: float64 [queries, ...] by name."""
SUMMED = (
    "entropy", "uniform", "soft", "hard", "spread", "anywhere", "square", "signal", "soft_signal",
    "soft_error", "soft_dot", "distance", "expected_distance", "value", "variance", "worse",
    "simulated", "error",
)  # fmt: skip
"""Columns of which means over queries are taken, those that there are."""


@dataclass(frozen=True)
class Settings:
    """How estimates were drawn, and how intervals are.

    Attributes
    ----------
    samples
        Numbers of samples of an estimate.
    repeats
        Estimates of each gradient.
    bootstrap_samples, confidence, seed
        Of the intervals.
    """

    samples: list[int]
    repeats: int
    bootstrap_samples: int
    confidence: float
    seed: int


def of_query(
    pattern: ArrayLike,
    values: ArrayLike,
    target: ArrayLike,
    settings: Settings,
    generator: np.random.Generator,
) -> Row:
    """Measure one query, exactly (:func:`exactly`) and by drawing keys.

    Parameters
    ----------
    pattern
        float64 [keys]: sums to 1.
    values
        [keys, d_model]: what may be read out.
    target
        [d_model]: of the objective.
    settings
        How estimates are drawn.
    generator
        Where keys are drawn from.
    """
    pattern, values = np.asarray(pattern, np.float64), np.asarray(values, np.float64)
    exact, drawn = exactly(pattern, values, target), settings.repeats * settings.samples[-1]
    objective, b = log_likelihood(values, target), np.asarray(exact["value"])  # [keys], [baselines]
    simulated = [
        simulate(pattern, objective, b, samples, settings.repeats, generator)
        for samples in settings.samples
    ]
    mean = simulated[-1].frequencies @ values  # [d_model], of so many hard read-outs
    return {
        **exact,
        "distance": np.square(mean - pattern @ values).sum(),
        "expected_distance": np.asarray(exact["spread"]) / drawn,
        "simulated": np.array([estimate.variance for estimate in simulated]),
        "error": np.array([estimate.error for estimate in simulated]),
        "along": np.array([estimate.along for estimate in simulated]),
        "along_variance": variance_along(
            pattern, objective, b, enumerated_gradient(pattern, objective)
        ),
    }


def exactly(pattern: ArrayLike, values: ArrayLike, target: ArrayLike) -> Row:
    """Measure one query as :func:`of_query` does, without drawing."""
    pattern, values = np.asarray(pattern, np.float64), np.asarray(values, np.float64)
    objective = log_likelihood(values, target)  # [keys]
    read = readouts(pattern, values, target)
    hard = enumerated_gradient(pattern, objective)  # [keys]
    soft = soft_gradient(pattern, values, target)  # [keys]
    b = baselines(pattern, objective)  # [baselines]
    variance = total_variance(pattern, objective, b)  # [baselines]
    mean = pattern @ values  # [d_model]
    return {
        "entropy": read.entropy,
        "uniform": np.log(len(pattern)),
        "soft": read.soft,
        "hard": read.hard,
        # Squared distances from the mean: of a key that is drawn from the pattern, and of any key.
        "spread": read.spread,
        "anywhere": np.square(values - mean).sum(axis=1).mean(),
        "square": mean @ mean,
        "gap_error": abs(read.soft - read.hard - read.spread / (2 * values.shape[1])),
        "weights_error": abs(pattern.sum() - 1),
        # E[e_i - p]
        "score_error": np.abs(pattern @ (np.eye(len(pattern)) - pattern)).max(),
        "signal": hard @ hard,
        "soft_signal": soft @ soft,
        "soft_error": (soft - hard) @ (soft - hard),
        "soft_dot": soft @ hard,
        "value": b,
        "variance": variance,
        # More than rounding adds.
        "worse": variance > variance[0] * (1 + 1e-9),
    }


def largest_errors(columns: Columns) -> dict[str, float]:
    """How far identities are from holding, by rounding: the largest of all queries.

    Weights sum to 1; the score function's expectation is 0; the soft read-out's objective is above
    the hard one's expectation by the read-outs' variance over 2 d.
    """
    return {name: float(columns[f"{name}_error"].max()) for name in ("weights", "score", "gap")}


def joined(columns: list[Columns]) -> Columns:
    """The results of all queries of several heads, one head after the other."""
    return {name: np.concatenate([head[name] for head in columns]) for name in columns[0]}


class Along(NamedTuple):
    """Bias along the gradient as a share of it, with its exact standard error, and z."""

    relative: float
    standard_error: float
    z: float


class LargestZ(NamedTuple):
    """The largest of many tests, and what chance exceeds once in 1 / (1 - confidence)."""

    tests: int
    largest: float
    bound: float


def largest_z(z: list[float], confidence: float) -> LargestZ:
    """The largest abs(z) beside Bonferroni's bound."""
    from scipy.stats import norm

    risk = (1 - confidence) / len(z)
    return LargestZ(len(z), max(map(abs, z)), float(norm.ppf(1 - risk / 2)))


class Means:
    """Means over queries, with intervals from resampled documents.

    Parameters
    ----------
    columns
        What was found of the queries, of one or more heads.
    document
        int64 [queries]: document of each; of several heads, the same for each.
    settings
        How estimates were drawn, and how intervals are.
    """

    def __init__(self, columns: Columns, document: ArrayLike, settings: Settings) -> None:
        self._columns, self.settings = columns, settings
        rows = len(columns["signal"])
        names = [name for name in SUMMED if name in columns]
        parts = [np.asarray(columns[name], np.float64).reshape(rows, -1) for name in names]
        self._places, start = {}, 0
        for name, part in zip(names, parts, strict=True):
            stop = start + part.shape[1]
            self._places[name] = np.arange(start, stop).reshape(columns[name].shape[1:])
            start = stop
        document = np.asarray(document)  # [queries]
        every = np.hstack([np.ones((rows, 1)), *parts])  # [rows, 1 + columns]
        # [documents, 1 + columns]
        sums = sums_by_group(every, np.tile(document, rows // len(document)))
        self._value = sums[:, 1:].sum(axis=0) / rows  # [columns]
        self._replicates = ratio_replicates(
            sums[:, 1:], sums[:, 0], settings.bootstrap_samples, settings.seed
        )  # [bootstrap samples, columns]

    def mean(self, name: str, *index: int) -> Estimate:
        """Mean of a column."""
        value, replicates = self._of(name, *index)
        return self._estimate(value, replicates)

    def ratio(self, above: tuple, below: tuple, scale: float = 1.0) -> Estimate | None:
        """Ratio of the means of two columns, (name, *index) each, times a number.

        None where what is below is 0.
        """
        (value, replicates), (divisor, divisors) = self._of(*above), self._of(*below)
        if divisor <= 0 or not (divisors > 0).all():
            return None
        return self._estimate(scale * value / divisor, scale * replicates / divisors)

    def variance(self, samples: int, place: int) -> Estimate:
        """Exact variance of an estimate from so many samples, of a baseline."""
        value, replicates = self._of("variance", place)
        return self._estimate(value / samples, replicates / samples)

    def along(self, turn: int, samples: int, place: int) -> Along:
        """Bias along the gradient of the estimates from so many samples, of a baseline."""
        signal = self._columns["signal"].sum()
        bias = self._columns["along"][:, turn, place].sum()
        variance = self._columns["along_variance"][:, place].sum()
        error = np.sqrt(variance / (samples * self.settings.repeats))
        return Along(
            relative=float(bias / signal) if signal > 0 else 0.0,
            standard_error=float(error / signal) if signal > 0 else 0.0,
            z=float(bias / error) if error > 0 else 0.0,
        )

    def cosine(self) -> Estimate | None:
        """Cosine of the two gradients, all queries' entries taken as one vector."""
        (dot, dots), (soft, softs), (hard, hards) = map(
            self._of, ("soft_dot", "soft_signal", "signal")
        )
        if not (min(soft, hard) > 0 and (softs * hards > 0).all()):
            return None
        return self._estimate(dot / np.sqrt(soft * hard), dots / np.sqrt(softs * hards))

    def _of(self, name: str, *index: int) -> tuple[float, NDArray[np.float64]]:
        column = int(self._places[name][index])
        return float(self._value[column]), self._replicates[:, column]

    def _estimate(self, value: float, replicates: NDArray[np.float64]) -> Estimate:
        return percentile_interval(value, replicates, self.settings.confidence)
