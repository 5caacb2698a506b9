"""Percentile bootstrap of ratios of sums, resampled by document.

The tokens of a document are not independent, so the unit that is resampled is the document (a
cluster bootstrap). Efron and Tibshirani (1993), *An Introduction to the Bootstrap*, section 13.3
(percentile interval); Field and Welsh (2007), https://doi.org/10.1111/j.1467-9868.2007.00593.x
(bootstrapping clustered data).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Seed = int | np.random.SeedSequence
Transform = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Largest number of resampling counts held at a time: 16 MB as int64.
_BLOCK_COUNTS = 2**21


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value and its confidence interval, in the same unit.

    Parameters
    ----------
    value, low, high
        Point estimate, lower bound and upper bound: three floats, or three float64 arrays [k].
    """

    value: float | NDArray[np.float64]  # [] or [k]
    low: float | NDArray[np.float64]  # [] or [k]
    high: float | NDArray[np.float64]  # [] or [k]

    def as_json(self) -> Any:
        """Return ``{"value", "low", "high"}`` with floats, or a list of k of them.

        Examples
        --------
        >>> Estimate(1.0, 0.5, 2.0).as_json()
        {'value': 1.0, 'low': 0.5, 'high': 2.0}
        """
        if np.ndim(self.value) == 0:
            return {"value": float(self.value), "low": float(self.low), "high": float(self.high)}
        return [
            Estimate(value, low, high).as_json()
            for value, low, high in np.stack([self.value, self.low, self.high], axis=-1)
        ]


def resampling_counts(
    documents: int, samples: int, seed: Seed, block_counts: int = _BLOCK_COUNTS
) -> Iterator[NDArray[np.int64]]:
    """Yield how often each document is drawn, for blocks of resamples.

    A row is a draw from the multinomial law with ``documents`` trials over ``documents`` equally
    likely cells, made by counting uniform draws: several times as fast as
    ``Generator.multinomial``, which draws one binomial a cell.

    Parameters
    ----------
    documents, samples
        Number of documents and of resamples.
    seed
        Seed of the generator. The counts do not depend on ``block_counts``.
    block_counts
        Upper bound of the size of a block, which has one row at least.

    Yields
    ------
    int64 [block, documents]; the rows of all blocks together are ``samples``.
    """
    generator = np.random.default_rng(seed)
    rows = max(1, block_counts // documents)
    for start in range(0, samples, rows):
        block = min(rows, samples - start)
        drawn = generator.integers(documents, size=(block, documents))  # [block, documents]
        drawn += documents * np.arange(block)[:, None]  # one range of cells a resample
        counts = np.bincount(drawn.ravel(), minlength=block * documents)  # [block * documents]
        yield counts.reshape(block, documents)


def ratio_replicates(
    numerators: ArrayLike, denominators: ArrayLike, samples: int, seed: Seed
) -> NDArray[np.float64]:
    """Ratios of sums over resampled documents.

    Parameters
    ----------
    numerators
        [documents] or [documents, k]: sums over the tokens of each document.
    denominators
        [documents]: what the numerators are divided by, such as token counts; not negative.
        Documents whose sums and counts are all zero are left out.
    samples
        Number of resamples.
    seed
        Seed of the generator. Calls with the same seed, number of documents and number of
        resamples draw the same documents.

    Returns
    -------
    float64 [samples] or [samples, k].

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is not finite, a denominator is negative, or the
        denominators of a resample are all zero.
    """
    numerators, denominators = _checked(numerators, denominators)
    replicates = np.empty((samples, *numerators.shape[1:]))  # [samples] or [samples, k]
    done = 0
    for counts in resampling_counts(len(denominators), samples, seed):
        weights = counts.astype(np.float64)  # [block, documents]
        sums = weights @ denominators  # [block]
        if not np.all(sums > 0):
            raise ValueError("a resample has denominators that are all zero: too few documents")
        ratios = (weights @ numerators).T / sums  # [block] or [k, block]
        replicates[done : done + len(sums)] = ratios.T
        done += len(sums)
    return replicates


def percentile_interval(
    value: ArrayLike,
    replicates: NDArray[np.float64],
    confidence: float,
    transform: Transform | None = None,
) -> Estimate:
    """Percentile interval from bootstrap replicates.

    Parameters
    ----------
    value
        Point estimate, [] or [k].
    replicates
        [samples] or [samples, k].
    confidence
        Share of replicates between the bounds, such as 0.95.
    transform
        Increasing function applied to the value and to both bounds, such as ``np.exp``.

    Returns
    -------
    Estimate
        Floats, or arrays [k].

    Raises
    ------
    ValueError
        If ``confidence`` is not between 0 and 1.

    Notes
    -----
    Efron and Tibshirani (1993), section 13.3.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie between 0 and 1")
    tail = (1 - confidence) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)  # [] or [k] each
    bounds = [np.asarray(bound, dtype=np.float64) for bound in (value, low, high)]
    if transform is not None:
        bounds = [transform(bound) for bound in bounds]
    if np.ndim(bounds[0]) == 0:
        return Estimate(*map(float, bounds))
    return Estimate(*bounds)


def ratio_bootstrap(
    numerators: ArrayLike,
    denominators: ArrayLike,
    samples: int,
    confidence: float,
    seed: Seed,
    transform: Transform | None = None,
) -> Estimate:
    """Estimate sum(numerators) / sum(denominators), with documents resampled with replacement.

    Parameters
    ----------
    numerators
        [documents] or [documents, k]: sums over the tokens of each document.
    denominators
        [documents]: token (or byte) counts; not negative. Documents whose sums and counts are
        all zero are left out.
    samples
        Number of resamples.
    confidence
        Level of the percentile interval.
    seed
        Seed of the generator.
    transform
        Increasing function applied to the value and to both bounds, such as ``np.exp``.

    Returns
    -------
    Estimate
        Floats, or arrays [k]. With a single document the interval has no width.

    Raises
    ------
    ValueError
        As :func:`ratio_replicates` and :func:`percentile_interval`.

    Examples
    --------
    Three documents of two tokens each, all with the same mean:

    >>> ratio_bootstrap([3.0, 3.0, 3.0], [2, 2, 2], 100, 0.95, seed=0).as_json()
    {'value': 1.5, 'low': 1.5, 'high': 1.5}
    """
    numerators, denominators = _checked(numerators, denominators)
    replicates = ratio_replicates(numerators, denominators, samples, seed)
    value = numerators.sum(axis=0) / denominators.sum()  # [] or [k]
    return percentile_interval(value, replicates, confidence, transform)


def paired_ratio_bootstrap(
    condition: ArrayLike,
    intact: ArrayLike,
    denominators: ArrayLike,
    samples: int,
    confidence: float,
    seed: Seed,
    transform: Transform | None = None,
) -> Estimate:
    """Estimate the difference of two ratios over the same documents.

    Both conditions are resampled with the same documents, so what makes a document easy or hard
    under both cancels.

    Parameters
    ----------
    condition, intact
        [documents] or [documents, k]: sums over the tokens of each document under either.
    denominators
        [documents]: token counts, which both conditions share.
    samples, confidence, seed, transform
        As :func:`ratio_bootstrap`.

    Returns
    -------
    Estimate
        Of (sum(condition) - sum(intact)) / sum(denominators).

    Raises
    ------
    ValueError
        If the shapes of the two differ, and as :func:`ratio_bootstrap`.
    """
    condition = np.asarray(condition, dtype=np.float64)  # [documents] or [documents, k]
    intact = np.asarray(intact, dtype=np.float64)  # [documents] or [documents, k]
    if condition.shape != intact.shape:
        raise ValueError(f"paired sums have shapes {condition.shape} and {intact.shape}")
    return ratio_bootstrap(condition - intact, denominators, samples, confidence, seed, transform)


def median_bootstrap(values: ArrayLike, samples: int, confidence: float, seed: Seed) -> Estimate:
    """Estimate the median of values, which are themselves resampled with replacement.

    Parameters
    ----------
    values
        Of any shape, such as one for each head; those that are NaN are left out, but not all.
    samples, confidence, seed
        As :func:`ratio_bootstrap`.

    Returns
    -------
    Estimate
        Floats.
    """
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]  # [n]
    drawn = np.random.default_rng(seed).integers(len(numbers), size=(samples, len(numbers)))
    return percentile_interval(np.median(numbers), np.median(numbers[drawn], axis=1), confidence)


def sums_bootstrap(
    sums: Sequence[NDArray[np.float64]],
    statistic: Callable[..., NDArray[np.float64]],
    samples: int,
    confidence: float,
    seed: Seed,
) -> Estimate:
    """Estimate any function of sums over documents, with documents resampled with replacement.

    Parameters
    ----------
    sums
        Arrays [documents, ...]: what is summed of each document.
    statistic
        Of arrays [resamples, ...], one for each of ``sums``: [resamples] or [resamples, k].
    samples, confidence, seed
        As :func:`ratio_bootstrap`.

    Returns
    -------
    Estimate
        Floats, or arrays [k].
    """
    documents = len(sums[0])
    flat = [array.reshape(documents, -1) for array in sums]  # [documents, m] each

    def of(counts: NDArray) -> NDArray[np.float64]:  # [resamples, documents]
        totals = (counts.astype(np.float64) @ matrix for matrix in flat)  # [resamples, m] each
        return statistic(
            *(t.reshape(-1, *array.shape[1:]) for t, array in zip(totals, sums, strict=True))
        )

    rows = max(1, _BLOCK_COUNTS // max(matrix.shape[1] for matrix in flat))
    blocks = resampling_counts(documents, samples, seed, rows * documents)
    replicates = np.concatenate([of(counts) for counts in blocks])  # [samples] or [samples, k]
    return percentile_interval(of(np.ones((1, documents)))[0], replicates, confidence)


def _checked(
    numerators: ArrayLike, denominators: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    numerators = np.asarray(numerators, dtype=np.float64)  # [documents] or [documents, k]
    denominators = np.asarray(denominators, dtype=np.float64)  # [documents]
    if denominators.ndim != 1 or numerators.ndim not in (1, 2):
        raise ValueError(
            f"shapes {numerators.shape} and {denominators.shape} are not [documents] or "
            f"[documents, k], and [documents]"
        )
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} numerators for {len(denominators)} denominators")
    if not (np.isfinite(numerators).all() and np.isfinite(denominators).all()):
        raise ValueError("numerators and denominators must be finite")
    if (denominators < 0).any() or denominators.sum() == 0:
        raise ValueError("denominators must not be negative, nor all be zero")
    # A document without a token is no observation: drawing it would only leave resamples short.
    empty = (denominators == 0) & (numerators.reshape(len(numerators), -1) == 0).all(axis=1)
    return numerators[~empty], denominators[~empty]
