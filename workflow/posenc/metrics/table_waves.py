"""Waves of position in a table of position embeddings, and whether its last rows were trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.components import (
    fourier_basis,
    held_out_moments,
    principal_components,
)
from posenc.metrics.independent import several_starts
from posenc.metrics.moments import correlation_of_moments

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableWaves:
    """Leading components of the rows of a table, and slow waves of position.

    Attributes
    ----------
    correlation
        First canonical correlation of the principal components with the waves, at positions that
        its directions were not fitted to; in [-1, 1].
    shuffled
        float64 [shuffles]: the same of the rows in random order.
    principal
        float64 [k]: share of the variance of each component over positions that the waves explain,
        in [0, 1]; by their variance.
    independent
        float64 [starts, k]: the same of independent components, from each start of the search; by
        this share, falling.
    explained_shuffled
        float64 [shuffles]: the largest such share of a principal component, rows in random order.
    converged
        Whether every search for independent components ended by itself.
    """

    correlation: float
    shuffled: Floats
    principal: Floats
    independent: Floats
    explained_shuffled: Floats
    converged: bool


def table_waves(
    table: ArrayLike, *, components: int, harmonics: int, folds: int, shuffles: int, seed: int
) -> TableWaves:
    """What of slow waves of position is in the components of a table.

    Hotelling's canonical correlations, over shuffled folds of positions as in the regressions of
    Wang and Chen (2020); components as of hidden states (:mod:`posenc.metrics.components`).

    Parameters
    ----------
    table
        [rows, d_model]: row p is the vector of position p.
    components
        k: leading principal components, and as many independent ones of these.
    harmonics
        Waves have the periods 2 rows / 1, ..., 2 rows / harmonics, a cosine and a sine each.
    folds, shuffles, seed
        Of the cross-validation; random orders of the rows, for the level of chance; of all draws.

    Raises
    ------
    ValueError
        If there are too few rows, or the table varies in fewer than k directions.
    """
    principal = principal_components(table, components)
    rows = len(principal.scores)
    starts = several_starts(principal.scores, seed=seed)
    basis = fourier_basis(np.arange(rows), rows, harmonics)  # [rows, 2 harmonics]
    generator = np.random.default_rng(seed)

    def correlation(scores: Floats) -> float:
        """Over positions, each in the one fold that it is left out of."""
        moments = held_out_moments(scores, basis, np.arange(rows), folds=folds, seed=seed)
        return float(correlation_of_moments(moments.sum(axis=0))[0])

    chance, explained = np.empty(shuffles), np.empty(shuffles)
    for draw in range(shuffles):
        scores = generator.permutation(principal.scores, axis=0)  # [rows, k]
        chance[draw] = correlation(scores)
        explained[draw] = explained_share(scores, basis).max()
    return TableWaves(
        correlation(principal.scores),
        chance,
        explained_share(principal.scores, basis),
        np.stack([np.sort(explained_share(start.sources, basis))[::-1] for start in starts]),
        explained,
        all(start.converged for start in starts),
    )


def explained_share(values: ArrayLike, basis: ArrayLike) -> Floats:
    """Share of the variance of each column that least squares on a basis explain: R².

    Parameters
    ----------
    values
        [n, columns], none of them constant.
    basis
        [n, waves], linearly independent; a constant is always part of the regression.

    Returns
    -------
    float64 [columns], in [0, 1]; about waves / (n - 1) where the basis says nothing.
    """
    columns, waves = (
        matrix - matrix.mean(axis=0)
        for matrix in (np.asarray(matrix, np.float64) for matrix in (values, basis))
    )  # [n, columns], [n, waves]
    orthonormal = np.linalg.qr(waves)[0]  # [n, waves]
    explained = np.square(orthonormal.T @ columns).sum(axis=0)  # [columns]
    return np.clip(explained / np.square(columns).sum(axis=0), 0, 1)


@dataclass(frozen=True)
class LastRows:
    """The end of a table of positions.

    Attributes
    ----------
    norm
        Of the last row, as a multiple of the median norm of the rows.
    cosine
        Of the last row and the one before.
    neighbours
        Median cosine of a row and the one before.
    chance
        What the modulus of the cosine of a row and an independent random direction stays below,
        with the given probability.
    untouched
        So many rows at the end are no nearer to the row before than that: they may as well have
        been drawn at random, and not trained.
    """

    norm: float
    cosine: float
    neighbours: float
    chance: float
    untouched: int


def last_rows(table: ArrayLike, probability: float = 0.95) -> LastRows:
    """How far training reached towards the end of a table.

    A row that no training text was long enough for is as it was drawn: of independent normal
    entries, in a direction that has nothing to do with that of its neighbour.

    Parameters
    ----------
    table
        [rows, d_model].
    probability
        Of the level of chance. The square of the cosine of independent directions has the law
        Beta(1/2, (d_model - 1) / 2).

    Raises
    ------
    ValueError
        If a row is zero: it has no direction.
    """
    from scipy.stats import beta

    table = np.asarray(table, np.float64)  # [rows, d_model]
    norms = np.linalg.norm(table, axis=1)  # [rows]
    if not norms.all():
        raise ValueError(f"row {int(np.argmin(norms))} is zero: it has no direction")
    directions = table / norms[:, None]  # [rows, d_model]
    cosines = np.sum(directions[1:] * directions[:-1], axis=1)  # [rows - 1]
    chance = math.sqrt(beta.ppf(probability, 0.5, (table.shape[1] - 1) / 2))
    near = np.abs(cosines[::-1]) > chance  # [rows - 1], from the last row on
    return LastRows(
        float(norms[-1] / np.median(norms)),
        float(cosines[-1]),
        float(np.median(cosines)),
        chance,
        int(near.argmax() if near.any() else len(near)),
    )
