"""Results over seeds: their mean, spread and Student's interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def over_seeds(values: ArrayLike, confidence: float = 0.95) -> dict[str, Any]:
    """Mean of a result over seeds, with Student's interval for the mean of n - 1 degrees.

    Parameters
    ----------
    values
        [seeds], one result per seed, at least two.
    confidence
        Of the interval, in (0, 1).

    Returns
    -------
    dict
        ``value`` (the mean), ``low``, ``high``, ``sd`` (of the sample, n - 1) and ``values``.

    Raises
    ------
    ValueError
        If there are fewer than two values, or one is not finite.
    """

    from scipy import stats

    values = np.asarray(values, np.float64)  # [seeds]
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"an interval over seeds needs two seeds, not {values.size}")
    if not np.isfinite(values).all():
        raise ValueError(f"results over seeds must be finite: {values.tolist()}")
    mean, sd = values.mean(), values.std(ddof=1)
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * sd / np.sqrt(len(values))
    return {
        "value": float(mean),
        "low": float(mean - half),
        "high": float(mean + half),
        "sd": float(sd),
        "values": values.tolist(),
    }


def difference_over_seeds(
    values: ArrayLike, reference: ArrayLike, confidence: float = 0.95
) -> dict[str, Any]:
    """:func:`over_seeds` of values minus reference, paired by seed.

    Parameters
    ----------
    values, reference
        [seeds] each.
    confidence
        Of the interval, in (0, 1).
    """
    values, reference = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    if values.shape != reference.shape:
        raise ValueError(f"{values.shape} values cannot be paired with {reference.shape}")
    return over_seeds(values - reference, confidence)
