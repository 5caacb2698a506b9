"""Principal components of hidden states, and what of position is in components.

They are not told a token's position. How much of it they hold is the share of a component's
variance that lies between positions, and their canonical correlations with waves over positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.moments import share_between, sums_by_group

# A column is dependent on the others when what it adds to them is a smaller part of it than this.
_DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class Principal:
    """Leading principal components of a sample.

    Attributes
    ----------
    variance
        float64 [k]: share of each in the total variance, falling.
    scores
        float64 [n, k]: coordinates of the centred sample; columns are uncorrelated.
    directions
        float64 [k, d]: orthonormal rows; in each, the entry of largest modulus is positive.
    """

    variance: NDArray[np.float64]
    scores: NDArray[np.float64]
    directions: NDArray[np.float64]


def principal_components(x: ArrayLike, k: int) -> Principal:
    """Leading k principal components: eigenvectors of the covariance of the sample.

    Parameters
    ----------
    x
        [n, d]: hidden states of n tokens, of any float type.
    k
        How many, at most d and n - 1.

    Returns
    -------
    Principal
        Jolliffe (2002), *Principal Component Analysis*, section 3.1.

    Raises
    ------
    ValueError
        If k is too large, a value is not finite, or the sample varies in fewer than k directions.
    """
    from scipy import linalg

    x = np.asarray(x, np.float64)  # [n, d]
    if x.ndim != 2 or not 1 <= k <= min(x.shape[1], len(x) - 1):
        raise ValueError(f"a sample of shape {x.shape} has no {k} principal components")
    if not np.isfinite(x).all():
        raise ValueError("a hidden state holds a value that is not finite")
    centred = x - x.mean(axis=0)  # [n, d]
    covariance = centred.T @ centred / len(x)  # [d, d]
    total, d = float(np.trace(covariance)), x.shape[1]
    values, vectors = linalg.eigh(covariance, subset_by_index=(d - k, d - 1))  # [k], [d, k]
    values, directions = values[::-1], vectors.T[::-1]  # [k], [k, d]
    if total <= 0 or values[-1] <= _DEPENDENT * total / d:
        raise ValueError(f"the sample varies in fewer than {k} directions")
    largest = np.abs(directions).argmax(axis=1)  # [k]
    directions = directions * np.sign(directions[np.arange(k), largest])[:, None]  # [k, d]
    return Principal(values / total, centred @ directions.T, directions)


def variance_between(values: ArrayLike, groups: ArrayLike) -> NDArray[np.float64]:
    """Share of each column's variance that lies between groups, corrected for finite groups.

    See :func:`posenc.metrics.moments.share_between`.

    Parameters
    ----------
    values
        [n, columns].
    groups
        int [n]: group of each row, such as its position.

    Returns
    -------
    float64 [columns]: at most 1; about 0, with either sign, where groups say nothing. 0 for a
    constant column.

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is not finite, or there are as many groups as rows.
    """
    values, groups = np.asarray(values, np.float64), np.asarray(groups)  # [n, columns], [n]
    if values.ndim != 2 or groups.shape != (len(values),):
        raise ValueError(f"shapes {values.shape} and {groups.shape} are not [n, columns] and [n]")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
    _, group, size = np.unique(groups, return_inverse=True, return_counts=True)  # [g], [n], [g]
    n, g = len(values), len(size)
    if n <= g:
        raise ValueError(f"{n} rows in {g} groups: none has a second row to vary from the first")
    # About the first row, so that nothing but 0 is left of a constant column.
    centred = values - values[0]  # [n, columns]
    centred -= centred.mean(axis=0)
    sums = sums_by_group(centred, group)  # [g, columns]
    total = np.square(centred).sum(axis=0)  # [columns]
    between = (np.square(sums) / size[:, None]).sum(axis=0)  # [columns]
    varies = total > 0  # [columns]
    share = np.zeros_like(total)  # [columns]
    share[varies] = share_between(total[varies], between[varies], n, g)
    return share


def fourier_basis(positions: ArrayLike, length: int, harmonics: int) -> NDArray[np.float64]:
    """Cosines and sines of position with the periods 2 T / k, k = 1, ..., harmonics.

    cos(π k t / T) and sin(π k t / T), where T is the length: the slowest goes through half a
    period from the first to the last position, so that a trend is near one of them.

    Parameters
    ----------
    positions
        int [n]: position t of each token.
    length, harmonics
        T, in tokens; how many periods.

    Returns
    -------
    float64 [n, 2 * harmonics]: all cosines, then all sines.

    Raises
    ------
    ValueError
        If the length or the number of harmonics is not positive.
    """
    if length < 1 or harmonics < 1:
        raise ValueError(f"a basis needs a length and harmonics, not {length} and {harmonics}")
    k = np.arange(1, harmonics + 1)  # [harmonics]
    angle = np.pi * np.asarray(positions, np.float64)[:, None] * k / length  # [n, harmonics]
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1)


@dataclass(frozen=True, eq=False)
class Canonical:
    """Canonical correlations of two sets of columns, with their directions.

    Attributes
    ----------
    correlations
        float64 [m], m = min(columns of x, columns of y): falling, in [0, 1].
    x_mean, y_mean
        float64 [columns]: what is subtracted.
    x_directions, y_directions
        float64 [columns, m]: the centred columns times these are of variance 1, and correlated in
        pairs alone.
    """

    correlations: NDArray[np.float64]
    x_mean: NDArray[np.float64]
    y_mean: NDArray[np.float64]
    x_directions: NDArray[np.float64]
    y_directions: NDArray[np.float64]


def canonical_correlations(x: ArrayLike, y: ArrayLike) -> Canonical:
    """Canonical correlation analysis: the most correlated pairs of combinations of columns.

    The correlations are the singular values of Q_xᵀ Q_y, with orthonormal bases Q of the centred
    columns. Björck and Golub (1973), https://doi.org/10.2307/2005662.

    Parameters
    ----------
    x, y
        [n, columns of x] and [n, columns of y].

    Returns
    -------
    Canonical
        Hotelling (1936), https://doi.org/10.1093/biomet/28.3-4.321.

    Raises
    ------
    ValueError
        If the numbers of rows differ, there are not more rows than columns of both, a value is not
        finite, or the columns of one are linearly dependent.
    """
    from scipy import linalg

    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)  # [n, p], [n, q]
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or len(x) <= x.shape[1] + y.shape[1]:
        raise ValueError(f"shapes {x.shape} and {y.shape} are not [n, p] and [n, q], n > p + q")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("values must be finite")
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)  # [p], [q]
    x_basis, x_back = _orthonormal(x - x_mean)  # [n, p], [p, p]
    y_basis, y_back = _orthonormal(y - y_mean)  # [n, q], [q, q]
    left, correlations, right = linalg.svd(x_basis.T @ y_basis, full_matrices=False)
    unit = np.sqrt(len(x))
    return Canonical(
        correlations=np.minimum(correlations, 1),
        x_mean=x_mean,
        y_mean=y_mean,
        x_directions=linalg.solve_triangular(x_back, left) * unit,
        y_directions=linalg.solve_triangular(y_back, right.T) * unit,
    )


def held_out_moments(
    x: ArrayLike, y: ArrayLike, documents: ArrayLike, *, folds: int, seed: int
) -> NDArray[np.float64]:
    """Moments of canonical variates in documents that their directions were not fitted to.

    Documents are dealt to folds at random. Directions are fitted to the other folds, where the
    variates have mean 0 and variance 1, and applied to the tokens of the fold.

    Parameters
    ----------
    x, y
        [n, p] and [n, q].
    documents
        int [n]: document of each row.
    folds, seed
        Number of folds, at most the number of documents; seed of the dealing.

    Returns
    -------
    float64 [documents, 6, m], m = min(p, q): for each document, in rising order, the sums of 1, u,
    v, u², v² and u v over its tokens, for each pair (u, v) of variates. See
    :func:`posenc.metrics.moments.correlation_of_moments`.

    Raises
    ------
    ValueError
        If there are fewer documents than folds, and as :func:`canonical_correlations`.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)  # [n, p], [n, q]
    names, document = np.unique(np.asarray(documents), return_inverse=True)  # [documents], [n]
    if not 2 <= folds <= len(names):
        raise ValueError(f"{len(names)} documents cannot be dealt to {folds} folds")
    dealt = np.random.default_rng(seed).permutation(np.arange(len(names)) % folds)  # [documents]
    fold = dealt[document]  # [n]
    u = np.empty((len(x), min(x.shape[1], y.shape[1])))  # [n, m]
    v = np.empty_like(u)  # [n, m]
    for number in range(folds):
        test = fold == number  # [n]
        fitted = canonical_correlations(x[~test], y[~test])
        u[test] = (x[test] - fitted.x_mean) @ fitted.x_directions
        v[test] = (y[test] - fitted.y_mean) @ fitted.y_directions
    terms = np.stack([np.ones_like(u), u, v, u * u, v * v, u * v], axis=1)  # [n, 6, m]
    return sums_by_group(terms, document)


def _orthonormal(
    centred: NDArray[np.float64],  # [n, p]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy import linalg

    basis, back = linalg.qr(centred, mode="economic")  # [n, p], [p, p]
    norms = np.linalg.norm(centred, axis=0)  # [p]
    if np.any(np.abs(np.diag(back)) <= _DEPENDENT * norms):
        raise ValueError("columns are constant or linearly dependent")
    return basis, back
