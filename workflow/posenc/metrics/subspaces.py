"""Leading directions of a table's rows, and the angles between two subspaces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from posenc.metrics.bootstrap import Seed
from posenc.metrics.readback import EPS, Floats, blocks, rows_of


def principal_directions(table: ArrayLike, share: float) -> tuple[Floats, int]:
    """The leading principal directions of a table's rows, and the rank of the table.

    Parameters
    ----------
    table
        [rows, d_model].
    share
        Of the rows' variance about their mean, which the directions carry at least.

    Returns
    -------
    float64 [d_model, k], orthonormal, k as small as it can be; and the rank before the mean is
    subtracted, with the tolerance of :func:`numpy.linalg.matrix_rank`.

    Raises
    ------
    ValueError
        If ``share`` is not in (0, 1), or all rows are the same.
    """
    table = np.asarray(table)  # [rows, d_model]
    mean = table.mean(axis=0, dtype=np.float64)  # [d_model]
    triangle = np.empty((0, table.shape[1]))  # [<= d_model, d_model]
    for rows in blocks(len(table), rows_of(table.shape[1])):
        # The same singular values and right vectors as the rows so far (Golub and Van Loan 5.2).
        centred = np.concatenate([triangle, table[rows] - mean])
        triangle = np.asarray(np.linalg.qr(centred, mode="r"))
    _, values, directions = np.linalg.svd(triangle, full_matrices=False)
    variance = np.square(values)  # [k]
    if not 0 < share < 1 or variance.sum() == 0:
        raise ValueError(f"no directions carry the share {share} of variance {variance.sum()}")
    kept = int(np.searchsorted(np.cumsum(variance) / variance.sum(), share)) + 1
    whole = np.concatenate([triangle, np.sqrt(len(table)) * mean[None]])  # the mean put back
    tolerance = np.linalg.norm(whole, 2) * max(table.shape) * EPS
    return directions[:kept].T, int(np.linalg.matrix_rank(whole, tol=tolerance))


class Angles(NamedTuple):
    """Principal angles between two subspaces, in radians, rising.

    Attributes
    ----------
    angles
        float64 [k].
    random, random_sd
        float64 [k]: mean and standard deviation of those of random subspaces.
    """

    angles: Floats
    random: Floats
    random_sd: Floats


def compare_angles(x: Floats, y: Floats, draws: int, seed: Seed) -> Angles:
    """Principal angles between two subspaces, beside those of random ones of their dimensions.

    Parameters
    ----------
    x, y
        [d_model, k] and [d_model, l]: bases.
    draws
        Pairs of random subspaces, uniformly distributed.
    seed
        Of the draws.

    Returns
    -------
    min(k, l) angles each, of which at least k + l - d_model are 0. Bjorck and Golub (1973),
    https://doi.org/10.1090/S0025-5718-1973-0348991-3.
    """
    from scipy.linalg import subspace_angles

    generator = np.random.default_rng(seed)
    random = [
        subspace_angles(generator.normal(size=x.shape), generator.normal(size=y.shape))[::-1]
        for _ in range(draws)
    ]
    return Angles(subspace_angles(x, y)[::-1], np.mean(random, axis=0), np.std(random, axis=0))
