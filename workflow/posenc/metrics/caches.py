"""How far a passage's keys and values at one offset are from those at another."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROUNDED = 2.0**-11
"""Relative difference that float16 rounds away, in which caches are kept: half of its last bit."""


def relative_differences(before: ArrayLike, after: ArrayLike) -> NDArray[np.float64]:
    """‖b - a‖ / ‖a‖ of each pair of vectors.

    Parameters
    ----------
    before, after
        [..., d] each: a and b; no vector of a is zero.

    Returns
    -------
    float64 [...].

    Raises
    ------
    ValueError
        If the shapes differ, or a vector of ``before`` is zero or not finite.

    Examples
    --------
    >>> relative_differences([[3.0, 4.0], [0.0, 2.0]], [[3.0, 3.0], [0.0, 2.0]]).tolist()
    [0.2, 0.0]
    """
    before, after = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if before.shape != after.shape:
        raise ValueError(f"shapes {before.shape} and {after.shape} differ")
    norms = np.linalg.norm(before, axis=-1)  # [...]
    if not (np.isfinite(norms).all() and norms.all()):
        raise ValueError("a vector is zero or not finite: no difference is relative to it")
    return np.linalg.norm(after - before, axis=-1) / norms
