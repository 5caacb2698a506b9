"""What the norm of an embedding says about position, and what layer normalisation leaves of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from sklearn.base import RegressorMixin


def norm_r2(
    norms: ArrayLike,
    positions: ArrayLike,
    *,
    seed: int,
    groups: ArrayLike | None = None,
    folds: int = 5,
) -> dict[str, float]:
    """Share of the variance of position that the norm alone predicts, cross-validated.

    R² = 1 - Σ (p - p̂)² / Σ (p - p̄)² over all tokens, where p̂ is the prediction by a regressor
    that was fitted to the other folds and p̄ the mean position of those other folds. A constant
    norm therefore has the R² 0, and a useless regressor falls below.

    Parameters
    ----------
    norms
        [tokens]: Euclidean norm of each token's vector, or of each position's embedding.
    positions
        [tokens]: position of each, in tokens.
    seed
        Seed of the shuffle of the folds.
    groups
        int [tokens]: document of each token. All tokens of a document are in one fold. Without,
        each token is by itself.
    folds
        Number of folds.

    Returns
    -------
    dict
        ``linear``: of a straight line; ``flexible``: of gradient-boosted regression trees (Friedman
        2001, https://doi.org/10.1214/aos/1013203451), which fit any function of the norm.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, there are fewer groups than folds, or all
        positions are the same.

    Notes
    -----
    With a few hundred tokens, trees that learn from an unrelated norm fall to about -0.1.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import GroupKFold

    norms = np.asarray(norms, np.float64)  # [tokens]
    positions = np.asarray(positions, np.float64)  # [tokens]
    groups = np.arange(len(norms)) if groups is None else np.asarray(groups)  # [tokens]
    if norms.ndim != 1 or not norms.shape == positions.shape == groups.shape:
        raise ValueError(
            f"shapes {norms.shape}, {positions.shape} and {groups.shape} of norms, positions and "
            f"groups are not the same [tokens]"
        )
    if not (np.isfinite(norms).all() and np.isfinite(positions).all()):
        raise ValueError("norms and positions must be finite")
    if len(norms) == 0 or np.ptp(positions) == 0:
        raise ValueError("all positions are the same: they have no variance to explain")
    # Few and small trees, since an embedding has as few as 512 positions to learn from. Stopping
    # early would hold single tokens back, of documents that it learns from.
    trees = HistGradientBoostingRegressor(
        max_iter=50, max_leaf_nodes=8, early_stopping=False, random_state=0
    )
    regressors = {"linear": LinearRegression(), "flexible": trees}
    splitter = GroupKFold(folds, shuffle=True, random_state=seed)
    splits = list(splitter.split(norms, groups=groups))
    return {
        name: _out_of_fold_r2(regressor, norms, positions, splits)
        for name, regressor in regressors.items()
    }


def layer_norm(x: ArrayLike, eps: float) -> NDArray[np.float64]:
    """Layer normalisation without gain and bias: (x - mean) / √(variance + eps) of each row.

    With eps = 0 it is blind to the norm: ``layer_norm(s * x, 0) == layer_norm(x, 0)`` for any
    positive scale s of a row, as both the mean and the standard deviation are multiplied by s.

    Parameters
    ----------
    x
        [..., d_model].
    eps
        Added to the variance, which is over d_model and not d_model - 1; not negative.

    Returns
    -------
    float64 [..., d_model]. Ba, Kiros and Hinton (2016), https://arxiv.org/abs/1607.06450.

    Raises
    ------
    ValueError
        If ``eps`` is negative, or it is 0 and a row is constant: 0 / 0.

    Examples
    --------
    >>> layer_norm([[1.0, 3.0], [10.0, 30.0]], eps=0).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    centred, deviation = centred_and_deviation(x, eps)  # [..., d_model], [..., 1]
    return centred / deviation


def rms_norm(x: ArrayLike, eps: float) -> NDArray[np.float64]:
    """Each row by its root mean square: x / √(mean of x² + eps), without gain.

    Parameters
    ----------
    x
        [..., d_model].
    eps
        Added to the mean square.

    Returns
    -------
    float64 [..., d_model]. Zhang and Sennrich (2019), equation 4, https://arxiv.org/abs/1910.07467.

    Examples
    --------
    >>> rms_norm([[1.0, 1.0], [-5.0, 5.0]], eps=0).tolist()
    [[1.0, 1.0], [-1.0, 1.0]]
    """
    x = np.asarray(x, np.float64)  # [..., d_model]
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + eps)


def centred_and_deviation(
    x: ArrayLike, eps: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two parts of :func:`layer_norm`: x - mean, and √(variance + eps) of each row.

    Parameters and errors are those of :func:`layer_norm`.

    Returns
    -------
    float64 [..., d_model] and float64 [..., 1].
    """
    if eps < 0:
        raise ValueError(f"eps is {eps}; it must not be negative")
    x = np.asarray(x, np.float64)  # [..., d_model]
    centred = x - x.mean(axis=-1, keepdims=True)  # [..., d_model]
    variance = np.square(centred).mean(axis=-1, keepdims=True) + eps  # [..., 1]
    if np.any(variance == 0):
        raise ValueError("a row is constant and eps is 0: its layer norm is undefined")
    return centred, np.sqrt(variance)


def _out_of_fold_r2(
    regressor: RegressorMixin,
    norms: NDArray[np.float64],  # [tokens]
    positions: NDArray[np.float64],  # [tokens]
    splits: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> float:
    from sklearn.base import clone

    residual, total = 0.0, 0.0
    for train, test in splits:
        fitted = clone(regressor).fit(norms[train, None], positions[train])
        residual += np.sum(np.square(positions[test] - fitted.predict(norms[test, None])))
        total += np.sum(np.square(positions[test] - positions[train].mean()))
    return float(1 - residual / total)
