"""Tables of positions that know no order: what heads make of them is no doing of position.

Both have what a table has besides its order, to a degree: its rows themselves, in another order,
which keeps all but the order; or random rows, with the mean and the standard deviation of each
dimension and nothing of how dimensions go together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.sampling import Seed

Floats = NDArray[np.float64]
NULLS = ("shuffled", "gaussian")


def shuffled_rows(table: ArrayLike, seed: Seed) -> Floats:
    """The rows of a table [positions, d_model] in random order."""
    return np.random.default_rng(seed).permutation(np.asarray(table, np.float64), axis=0)


def gaussian_rows(table: ArrayLike, seed: Seed) -> Floats:
    """Independent normal entries, [positions, d_model], with each column's mean and deviation."""
    table = np.asarray(table, np.float64)  # [positions, d_model]
    return np.random.default_rng(seed).normal(table.mean(axis=0), table.std(axis=0), table.shape)


def null_tables(table: ArrayLike, draws: int, seed: int) -> dict[str, list[Floats]]:
    """Tables in place of one, by kind of null.

    Parameters
    ----------
    table
        [positions, d_model].
    draws
        Of each kind.
    seed
        Of all draws, which are independent.

    Returns
    -------
    By ``NULLS``, as many tables as draws, float64 [positions, d_model] each.
    """
    kinds = zip(NULLS, np.random.SeedSequence(seed).spawn(len(NULLS)), strict=True)
    make = {"shuffled": shuffled_rows, "gaussian": gaussian_rows}
    return {name: [make[name](table, child) for child in own.spawn(draws)] for name, own in kinds}


def spread(values: ArrayLike) -> dict[str, float] | None:
    """Mean, least and most of a statistic over draws [draws]; None if it is defined in none."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]  # [draws where it is defined]
    if not len(numbers):
        return None
    return {
        "mean": float(numbers.mean()),
        "least": float(numbers.min()),
        "most": float(numbers.max()),
    }
