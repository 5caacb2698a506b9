"""Why attention scores are divided by √d_k: their variance, and the Jacobian of their softmax.

With entries of mean 0 and variance 1, a score q·k has variance d_k, and the softmax of large
scores passes almost no gradient on. Vaswani et al. (2017), section 3.2.1 and its footnote 4,
https://arxiv.org/abs/1706.03762.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate
from posenc.metrics.patterns import softmax

Floats = NDArray[np.float64]

# Largest number of entries of keys held at a time: 32 MB as float64.
_BLOCK_ENTRIES = 2**22
# Halvings of an interval of length 1 at most, until it is as long as rounding.
_HALVINGS = 60


class Summary(NamedTuple):
    """What is told of each row of a pattern, float64 [...] each.

    Attributes
    ----------
    largest
        Largest probability.
    entropy
        In nats.
    frobenius, spectral
        Norms of the softmax's Jacobian.
    """

    largest: Floats
    entropy: Floats
    frobenius: Floats
    spectral: Floats


class Medians(NamedTuple):
    """Medians over queries, as :class:`Means`."""

    largest: Estimate
    frobenius: Estimate
    spectral: Estimate


class Means(NamedTuple):
    """Means over queries: the scores' variance, and what :class:`Summary` tells.

    The medians stand beside them, as a few queries, of which two keys score nearly alike, make most
    of a mean.
    """

    variance: Estimate
    largest: Estimate
    entropy: Estimate
    frobenius: Estimate
    spectral: Estimate
    median: Medians


def normal_vectors(
    d_k: int, queries: int, keys: int, generator: np.random.Generator
) -> Iterator[tuple[Floats, Floats]]:
    """Queries, and for each its own keys, of independent standard normal entries.

    No two queries share a key, so what is measured of them is independent.

    Parameters
    ----------
    d_k
        Entries of a query and of a key.
    queries, keys
        Number of queries, and of keys of each.
    generator
        Where they are drawn from.

    Yields
    ------
    Blocks of queries, float64 [block, d_k], and of their keys, float64 [block, keys, d_k].
    """
    rows = max(1, _BLOCK_ENTRIES // (keys * d_k))
    for start in range(0, queries, rows):
        block = min(rows, queries - start)
        yield generator.normal(size=(block, d_k)), generator.normal(size=(block, keys, d_k))


def dot_products(queries: ArrayLike, keys: ArrayLike) -> Floats:
    """Scores q·k before scaling.

    Parameters
    ----------
    queries
        [n, d_k].
    keys
        [n, keys, d_k]: those of each query.

    Returns
    -------
    float64 [n, keys].
    """
    queries, keys = np.asarray(queries, np.float64), np.asarray(keys, np.float64)
    return (keys @ queries[:, :, None])[..., 0]


def frobenius_norm(pattern: ArrayLike) -> Floats:
    """Frobenius norm of the Jacobian J = diag(p) - p pᵀ of p = softmax(z), without making it.

    ‖J‖² = Σ_i p_i² (1 - p_i)² + Σ_(i≠j) p_i² p_j², of which no term is a small difference of large
    ones. It is √(n - 1) / n for a uniform pattern of n keys, and 0 if one key has all.

    Parameters
    ----------
    pattern
        [..., keys]: rows that sum to 1.

    Returns
    -------
    float64 [...].
    """
    p = np.sort(_checked(pattern), axis=-1)  # [..., keys], rising
    largest, others = p[..., -1], p[..., :-1]  # [...], [..., keys - 1]
    # 1 - p of the largest, from the others: a difference would leave rounding alone.
    rest = others.sum(axis=-1)  # [...]
    squares = np.square(others)  # [..., keys - 1]
    total = squares.sum(axis=-1)  # [...]
    diagonal = (largest * rest) ** 2 + (squares * np.square(1 - others)).sum(axis=-1)
    beside = 2 * largest**2 * total + np.clip(total**2 - np.square(squares).sum(axis=-1), 0, None)
    return np.sqrt(diagonal + beside)


def spectral_norm(pattern: ArrayLike) -> Floats:
    """Largest eigenvalue of the Jacobian diag(p) - p pᵀ of a softmax, without making it.

    It lies between the two largest entries of p, and is the root λ there of
    Σ_i p_i² / (p_i - λ) = 1, which rises with λ (Golub (1973), https://doi.org/10.1137/1015032,
    section 5); it is found by halving. It is 1 / n for a uniform pattern of n keys, and never above
    1 / 2.

    Parameters
    ----------
    pattern
        [..., keys]: rows that sum to 1.

    Returns
    -------
    float64 [...].
    """
    p = np.sort(_checked(pattern), axis=-1)  # [..., keys], rising
    low, high = p[..., -2].copy(), p[..., -1].copy()  # [...] each
    # p_i² / (p_i - λ) = p_i + λ p_i / (p_i - λ), and Σ p_i = 1: what is left has no difference
    # of 1 and nearly 1.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2  # [...]
        gap = p - middle[..., None]  # [..., keys]
        terms = np.divide(p, gap, out=np.zeros_like(p), where=gap != 0)  # [..., keys]
        above = terms.sum(axis=-1) > 0  # [...]
        high = np.where(above, middle, high)
        low = np.where(above, low, middle)
    return (low + high) / 2


def summary(pattern: ArrayLike) -> Summary:
    """What is told of each row of a pattern [..., keys]; rows sum to 1."""
    from scipy.special import entr

    p = _checked(pattern)  # [..., keys]
    return Summary(
        largest=p.max(axis=-1),
        entropy=entr(p).sum(axis=-1),
        frobenius=frobenius_norm(p),
        spectral=spectral_norm(p),
    )


def mean_interval(values: ArrayLike, confidence: float) -> Estimate:
    """Mean of independent values with Student's interval.

    Parameters
    ----------
    values
        [n], two at least.
    confidence
        Of the interval, in (0, 1).

    Raises
    ------
    ValueError
        If there are fewer than two values, or one is not finite.
    """
    from scipy import stats

    values = np.asarray(values, np.float64)  # [n]
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError("an interval needs two finite values at least")
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * error
    return Estimate(float(mean), float(mean - half), float(mean + half))


def median_interval(values: ArrayLike, confidence: float) -> Estimate:
    """Median of independent values, between order statistics that hold it with that confidence.

    How many of n values lie below the median is binomial with probability 1/2, whatever their law.
    Conover (1999), *Practical Nonparametric Statistics*, section 3.2.

    Parameters
    ----------
    values, confidence
        As :func:`mean_interval`.

    Raises
    ------
    ValueError
        As :func:`mean_interval`, and if there are too few values for the confidence.
    """
    from scipy import stats

    values = np.sort(np.asarray(values, np.float64))  # [n], rising
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError("an interval needs two finite values at least")
    # The largest rank whose order statistic is above the median with half the risk at most.
    below = int(stats.binom.ppf((1 - confidence) / 2, len(values), 0.5)) - 1
    if below < 0:
        raise ValueError(f"{len(values)} values are too few for a confidence of {confidence}")
    middle = float(np.median(values))
    return Estimate(middle, float(values[below]), float(values[len(values) - 1 - below]))


def of_scores(scores: ArrayLike, confidence: float) -> Means:
    """Means and medians over queries of what :func:`summary` tells, with intervals.

    Parameters
    ----------
    scores
        [queries, keys]. Their mean is 0 by construction, so that the variance is the mean square.
    confidence
        Of the intervals, in (0, 1).
    """
    scores = np.asarray(scores, np.float64)  # [queries, keys]
    by_query = summary(softmax(scores.copy(), causal=False))  # [queries] each
    variance = np.square(scores).mean(axis=1)  # [queries]
    return Means(
        variance=mean_interval(variance, confidence),
        largest=mean_interval(by_query.largest, confidence),
        entropy=mean_interval(by_query.entropy, confidence),
        frobenius=mean_interval(by_query.frobenius, confidence),
        spectral=mean_interval(by_query.spectral, confidence),
        median=Medians(
            largest=median_interval(by_query.largest, confidence),
            frobenius=median_interval(by_query.frobenius, confidence),
            spectral=median_interval(by_query.spectral, confidence),
        ),
    )


def _checked(pattern: ArrayLike) -> Floats:
    p = np.asarray(pattern, np.float64)  # [..., keys]
    if p.ndim == 0 or p.shape[-1] < 2:
        raise ValueError(f"a pattern of shape {p.shape} has no two keys")
    if not (np.isfinite(p).all() and (p >= 0).all()):
        raise ValueError("a pattern's entries must be finite and not negative")
    if not np.allclose(p.sum(axis=-1), 1, rtol=0, atol=1e-6):
        raise ValueError("a pattern's rows must sum to 1")
    return p
