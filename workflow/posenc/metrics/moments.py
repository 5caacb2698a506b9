"""Sums over groups of rows, and what follows from sums: shares, correlations, spreads."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def sums_by_group(rows: NDArray[np.float64], group: ArrayLike) -> NDArray[np.float64]:
    """Sums of rows [n, ...] over each group [n], of groups in rising order: [groups, ...]."""
    order = np.argsort(group, kind="stable")  # [n]
    first = np.unique(np.asarray(group)[order], return_index=True)[1]  # [groups]
    return np.add.reduceat(rows[order], first, axis=0)


def share_between(total: ArrayLike, between: ArrayLike, n: int, groups: int) -> NDArray[np.float64]:
    """Share of variance between groups, less what chance adds to it.

    1 - (n - 1) / (n - g) · (T - B) / T: eta squared, whose expectation for unrelated groups is
    (g - 1) / (n - 1), corrected so that it is 0. Kelley (1935),
    https://doi.org/10.1073/pnas.21.9.554 (epsilon squared).

    Parameters
    ----------
    total, between
        [...]: sums of squares T about the mean, and B of the groups' means about it. T is positive.
    n, groups
        Rows n in g groups, fewer than rows.

    Returns
    -------
    float64 [...], at most 1.
    """
    total, between = np.asarray(total, np.float64), np.asarray(between, np.float64)
    return 1 - (n - 1) / (n - groups) * ((total - between) / total)


def correlation_of_moments(moments: ArrayLike) -> NDArray[np.float64]:
    """Pearson correlation from sums, such as over resampled documents.

    Parameters
    ----------
    moments
        [..., 6, m]: sums, or weighted means, of 1, u, v, u², v² and u v.

    Returns
    -------
    float64 [..., m], in [-1, 1]; 0 where u or v does not vary.
    """
    ones, u, v, uu, vv, uv = np.moveaxis(np.asarray(moments, np.float64), -2, 0)  # [..., m] each
    u, v = u / ones, v / ones
    scale = np.sqrt(np.clip(uu / ones - u * u, 0, None) * np.clip(vv / ones - v * v, 0, None))
    correlation = np.divide(uv / ones - u * v, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.clip(correlation, -1, 1)


def mean_and_sd(values: ArrayLike) -> dict[str, float]:
    """Mean and standard deviation (of the sample, n - 1) over repeats, at least two."""
    values = np.asarray(values, np.float64)  # [repeats]
    return {"mean": float(values.mean()), "sd": float(values.std(ddof=1))}
