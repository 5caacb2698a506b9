"""Independent components of signals, and how far two sets of them are apart."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

STARTS = 10
"""Unmixing matrices that a search begins with, where what it finds is reported."""
# A direction in which signals vary less than this part of the most is none.
_DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class Independent:
    """Independent components of whitened signals.

    Attributes
    ----------
    sources
        float64 [n, r]: uncorrelated, of mean 0 and variance 1, in no order. The rank r is the
        number of directions in which the signals vary.
    unmixing
        float64 [r, k]: ``sources = centred signals @ unmixing.T``.
    converged
        Whether the iterations ended by themselves.
    iterations
        How many there were.
    """

    sources: NDArray[np.float64]
    unmixing: NDArray[np.float64]
    converged: bool
    iterations: int

    @property
    def rank(self) -> int:
        """How many components there are."""
        return len(self.unmixing)


def independent_components(
    signals: ArrayLike, *, seed: int, most: int = 500, tolerance: float = 1e-6
) -> Independent:
    """Independent components by maximum likelihood, with log cosh as contrast.

    The unmixing matrix of whitened signals is a rotation, as in FastICA, whose fixed points are the
    same. FastICA's step ignores how components act on each other, and turns for ever between two
    matrices where two of them are alike; a quasi-Newton method with a line search does not.

    Parameters
    ----------
    signals
        [n, k]: mixtures, such as the leading principal components; they are whitened here, in the
        directions in which they vary.
    seed, most, tolerance
        Seed of the first unmixing matrix; largest number of iterations, which end when no entry of
        the gradient is larger than the tolerance.

    Returns
    -------
    Independent
        Ablin, Cardoso and Gramfort (2018), *Faster ICA under orthogonal constraint*,
        https://arxiv.org/abs/1711.10873, as python-picard computes it.

    Raises
    ------
    ValueError
        If a value is not finite, or all signals are constant.
    """
    from picard import picard

    signals = np.asarray(signals, np.float64)  # [n, k]
    if not np.isfinite(signals).all():
        raise ValueError("a signal holds a value that is not finite")
    whitened, scale = _whitened(signals)  # [n, r], [r, k]
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        _, rotation, sources, iterations = picard(
            whitened.T, whiten=False, centering=False, max_iter=most, tol=tolerance,
            random_state=seed, return_n_iter=True,
        )  # fmt: skip
    converged = not any("did not converge" in str(warning.message) for warning in raised)
    return Independent(sources.T, rotation @ scale, converged, int(iterations))


def several_starts(signals: ArrayLike, *, seed: int) -> list[Independent]:
    """Independent components from each of several starts of the search.

    The likelihood has a maximum for each way of parting the signals, and where components are alike
    many nearly as high ones. Which one a search reaches follows its start; and from the same start,
    rounding. So what is reported is a mean over starts, with the least and the most: Himberg,
    Hyvärinen and Esposito (2004), https://doi.org/10.1016/j.neuroimage.2004.03.027.

    Parameters
    ----------
    signals, seed
        As of :func:`independent_components`; the seed of the first start.

    Returns
    -------
    list of Independent [starts]
    """
    return [independent_components(signals, seed=seed + start) for start in range(STARTS)]


def amari_index(unmixing: ArrayLike, mixing: ArrayLike) -> float:
    """How far an unmixing matrix is from inverting a mixing matrix, up to order and scale.

    With P = |unmixing @ mixing|, the mean over rows and columns of (Σ P / max P - 1) / (k - 1).
    Amari, Cichocki and Yang (1996), *A new learning algorithm for blind signal separation*,
    section 5, without the division, which puts it between 0 and 1.

    Parameters
    ----------
    unmixing, mixing
        [k, k], k at least 2.

    Returns
    -------
    float
        0 if and only if each source is recovered; 1 where all entries of P are of the same size.

    Raises
    ------
    ValueError
        If the matrices are not [k, k], or their product has a row or column of zeros.

    Examples
    --------
    >>> amari_index([[0.0, -2.0], [5.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    0.0
    """
    unmixing, mixing = np.asarray(unmixing, np.float64), np.asarray(mixing, np.float64)
    k = len(mixing)
    if k < 2 or unmixing.shape != (k, k) or mixing.shape != (k, k):
        raise ValueError(f"shapes {unmixing.shape} and {mixing.shape} are not [k, k], k >= 2")
    product = np.abs(unmixing @ mixing)  # [k, k]
    if not (np.isfinite(product).all() and product.any(axis=0).all() and product.any(axis=1).all()):
        raise ValueError("the product must be finite, with no row or column of zeros")
    rows = product.sum(axis=1) / product.max(axis=1) - 1  # [k]
    columns = product.sum(axis=0) / product.max(axis=0) - 1  # [k]
    return float((rows.sum() + columns.sum()) / (2 * k * (k - 1)))


def amari_chance(k: int, repeats: int, seed: int) -> float:
    """Mean Amari index of random rotations, [k, k]: of whitened components that are unrelated."""
    from scipy.stats import ortho_group

    rotations = ortho_group(k, seed=seed).rvs(repeats)  # [repeats, k, k]
    return float(np.mean([amari_index(rotation, np.eye(k)) for rotation in rotations]))


def _whitened(signals: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Signals of covariance 1 in as many directions as they vary in; the matrix that made them.

    They are [n, r] and [r, k].
    """
    from scipy import linalg

    centred = signals - signals.mean(axis=0)  # [n, k]
    values, vectors = linalg.eigh(centred.T @ centred / len(centred))  # [k], [k, k]
    # What is left of constant signals when their mean is subtracted is rounding.
    rounding = np.square(np.finfo(np.float64).eps * np.abs(signals).max())
    kept = values > max(_DEPENDENT * values[-1], signals.size * rounding)  # [k]
    if not kept.any():
        raise ValueError("all signals are constant")
    scale = vectors.T[kept] / np.sqrt(values[kept])[:, None]  # [r, k]
    return centred @ scale.T, scale
