"""Results over seeds: their mean, spread and Student's interval, inside a result's bounds."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

Bounds = tuple[float, float]
SHARE: Bounds = (0.0, 1.0)
"""Between which accuracies and other shares lie."""


class SeedMean(TypedDict):
    """A mean over seeds with its interval, in the unit of the values."""

    value: float
    """The mean."""
    low: float
    high: float
    sd: float
    """Of the sample, with n - 1."""
    values: list[float]
    """[seeds]"""


def over_seeds(
    values: ArrayLike, confidence: float = 0.95, bounds: Bounds | None = None
) -> SeedMean:
    """Mean of a result over seeds, with Student's interval for the mean of n - 1 degrees.

    Near a bound that interval goes beyond it: seeds of 100, 100 and 57 % would be [25, 146] %. So
    the interval of a bounded result is taken on the scale of the logit, where the standard error
    of a mean m is se / (m (1 - m)) by the delta method, and is put back. It is the logit interval
    of Korn and Graubard (1998), "Confidence intervals for proportions with small expected number
    of positive counts estimated from survey data", Survey Methodology 24, 193-201, with seeds in
    place of their clusters. Far from the bounds both are the same.

    Parameters
    ----------
    values
        [seeds], one result per seed, at least two.
    confidence
        Of the interval, in (0, 1).
    bounds
        The least and the largest result that there can be; None where there are none.

    Raises
    ------
    ValueError
        If there are fewer than two values, or one is not finite or out of bounds.
    """
    from scipy import special, stats

    values = np.asarray(values, np.float64)  # [seeds]
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"an interval over seeds needs two seeds, not {values.size}")
    if not np.isfinite(values).all():
        raise ValueError(f"results over seeds must be finite: {values.tolist()}")
    mean, sd = values.mean(), values.std(ddof=1)
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * sd / np.sqrt(len(values))
    low, high = mean - half, mean + half
    if bounds is not None:
        least, most = bounds
        if values.min() < least or values.max() > most:
            raise ValueError(f"results over seeds must be in [{least}, {most}]: {values.tolist()}")
        share = (mean - least) / (most - least)
        if sd > 0 and 0 < share < 1:
            step = half / (most - least) / (share * (1 - share))
            low, high = (
                least + (most - least) * special.expit(special.logit(share) + end)
                for end in (-step, step)
            )
        low, high = max(low, least), min(high, most)  # rounding
    return {
        "value": float(mean),
        "low": float(low),
        "high": float(high),
        "sd": float(sd),
        "values": values.tolist(),
    }


def difference_over_seeds(
    values: ArrayLike,
    reference: ArrayLike,
    confidence: float = 0.95,
    bounds: Bounds | None = None,
) -> SeedMean:
    """:func:`over_seeds` of values minus reference, paired by seed.

    Parameters
    ----------
    values, reference
        [seeds] each.
    confidence
        Of the interval, in (0, 1).
    bounds
        Of the values and of the reference; the difference has the bounds that follow.
    """
    values, reference = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    if values.shape != reference.shape:
        raise ValueError(f"{values.shape} values cannot be paired with {reference.shape}")
    reach = bounds and (bounds[0] - bounds[1], bounds[1] - bounds[0])
    return over_seeds(values - reference, confidence, reach)
