"""What layer normalisation does to the position that was added to its input (C5).

With rows as tokens, LN(x) = S (I - 11ᵀ/d) x L + b: a scale for each token, S = 1 / √(variance +
eps), the subtraction of each row's mean, and the diagonal gain L (Ba, Kiros and Hinton 2016,
https://arxiv.org/abs/1607.06450). It is linear but for S, so that LN(∗ + P) is the sum of a part
of ∗ and of S P L, with P centred; S is that of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate
from posenc.metrics.moments import correlation_of_moments, share_between, sums_by_group
from posenc.metrics.norms import centred_and_deviation
from posenc.metrics.readback import EPS
from posenc.metrics.spectra import amplitude_spectrum, frequencies

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantiles of the scale."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a layer normalisation: S, (I - 11ᵀ/d) x, L and b.

    ``scale`` is float64 [...], ``centred`` [..., d_model], ``gain`` and ``bias`` [d_model].
    """

    scale: NDArray[np.float64]
    centred: NDArray[np.float64]
    gain: NDArray[np.float64]
    bias: NDArray[np.float64]

    @property
    def output(self) -> NDArray[np.float64]:
        """S (I - 11ᵀ/d) x L + b, [..., d_model]."""
        return self.scale[..., None] * self.centred * self.gain + self.bias


def parts(x: ArrayLike, gain: ArrayLike, bias: ArrayLike, eps: float) -> Parts:
    """Take a layer normalisation apart.

    Parameters
    ----------
    x
        [..., d_model].
    gain, bias
        [d_model].
    eps
        Added to the variance.

    Raises
    ------
    ValueError
        If a row has no variance and eps is 0, eps is negative, or the shapes do not fit.
    """
    x = np.asarray(x, np.float64)  # [..., d_model]
    gain, bias = np.asarray(gain, np.float64), np.asarray(bias, np.float64)  # [d_model] each
    if not x.shape[-1:] == gain.shape == bias.shape:
        raise ValueError(f"shapes {x.shape}, {gain.shape}, {bias.shape} do not share d_model")
    centred, deviation = centred_and_deviation(x, eps)  # [..., d_model], [..., 1]
    return Parts(1 / deviation[..., 0], centred, gain, bias)


def split(
    rest: ArrayLike, position: ArrayLike, gain: ArrayLike, bias: ArrayLike, eps: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """LN(∗ + P) as the sum of what comes of ∗ and of what comes of P.

    Parameters
    ----------
    rest, position
        [tokens, d_model]: ∗, and the position embedding of each token.
    gain, bias, eps
        As of :func:`parts`.

    Returns
    -------
    S (I - 11ᵀ/d) ∗ L + b and S (I - 11ᵀ/d) P L, float64 [tokens, d_model] each, whose sum is
    LN(∗ + P) exactly; and S, float64 [tokens].
    """
    rest, position = np.asarray(rest, np.float64), np.asarray(position, np.float64)
    whole = parts(rest + position, gain, bias, eps)
    scale = whole.scale[..., None]  # [tokens, 1]
    of_rest = rest - rest.mean(axis=-1, keepdims=True)  # [tokens, d_model]
    of_position = position - position.mean(axis=-1, keepdims=True)  # [tokens, d_model]
    return scale * of_rest * whole.gain + whole.bias, scale * of_position * whole.gain, whole.scale


def jackknife(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    sums: NDArray[np.float64],
    confidence: float,
) -> Estimate:
    """A function of sums over documents, with its interval by leaving one out at a time.

    Not the bootstrap of :mod:`posenc.metrics.bootstrap`: a document that is drawn twice would
    count as two in a correction for finite samples.

    Parameters
    ----------
    statistic
        From sums, [n, k], to values, [n, m].
    sums
        [documents, k], two documents at least.
    confidence
        Level of the normal interval.

    Notes
    -----
    Efron and Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 11.
    """
    total = sums.sum(axis=0)  # [k]
    return interval(statistic(total[None])[0], statistic(total - sums), confidence)


def interval(value: ArrayLike, left_out: NDArray[np.float64], confidence: float) -> Estimate:
    """The jackknife's interval from values with each document left out, [documents] or more."""
    from scipy.stats import norm

    n = len(left_out)
    if n < 2:
        raise ValueError("the jackknife needs two documents")
    error = np.sqrt((n - 1) * left_out.var(axis=0))  # [] or [m]
    half = norm.ppf((1 + confidence) / 2) * error
    return Estimate(value, value - half, value + half)


def scale_spread(
    scale: ArrayLike, position: ArrayLike, document: ArrayLike, confidence: float
) -> dict[str, Any]:
    """How much the scale S differs between tokens, and whether with their position.

    Parameters
    ----------
    scale, position, document
        [tokens].
    confidence
        Of the intervals by :func:`jackknife`.

    Returns
    -------
    ``mean``, ``variation`` (standard deviation over mean) and ``correlation`` with position
    (Pearson; None where either is constant) with intervals; ``sd``; ``quantiles``.
    """
    scale, position = np.asarray(scale, np.float64), np.asarray(position, np.float64)
    centre = scale.mean()
    s, p = scale - centre, position - position.mean()  # [tokens] each
    columns = np.stack([np.ones(len(s)), s, p, s * s, p * p, s * p], axis=1)  # [tokens, 6]
    sums = sums_by_group(columns, document)  # [documents, 6]

    def moments(sums: NDArray[np.float64]) -> NDArray[np.float64]:  # [n, 6] to [n, 3]
        _, s, _, ss, _, _ = (sums / sums[:, :1]).T  # [n] each
        deviation = np.sqrt(np.clip(ss - s * s, 0, None))  # [n]
        correlation = correlation_of_moments(sums[..., None])[:, 0]  # [n]
        return np.stack([centre + s, deviation / (centre + s), correlation], axis=1)

    mean, variation, correlation = jackknife(moments, sums, confidence).as_json()
    constant = np.ptp(s) == 0 or np.ptp(p) == 0
    return {
        "mean": mean,
        "sd": float(scale.std()),
        "variation": variation,
        "correlation": None if constant else correlation,
        "quantiles": {f"{q:g}": float(np.quantile(scale, q)) for q in QUANTILES},
    }


def variance_shares(
    rest: NDArray[np.float64], position: NDArray[np.float64], document: ArrayLike, confidence: float
) -> dict[str, dict[str, float]]:
    """Shares of the variance of LN's output over tokens, summed over d_model.

    Parameters
    ----------
    rest, position, document
        [tokens, d_model], the two parts of :func:`split`; and [tokens].
    confidence
        Of the intervals by :func:`jackknife`.

    Returns
    -------
    ``position``, ``rest``, and ``shared``, twice their covariance, which add up to 1.
    """
    d = rest.shape[1]
    position, rest = position - position.mean(axis=0), rest - rest.mean(axis=0)
    pairs = ((position, position), (rest, rest), (position, 2 * rest))
    products = [(a * b).sum(axis=1) for a, b in pairs]  # [tokens] each
    columns = np.column_stack([np.ones(len(rest)), *products, position, rest])  # [tokens, 4 + 2 d]

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:  # [n, 4 + 2 d] to [n, 3]
        means = sums / sums[:, :1]
        p, r = means[:, 4 : 4 + d], means[:, 4 + d :]  # [n, d] each
        squared = [(a * b).sum(axis=1) for a, b in ((p, p), (r, r), (p, 2 * r))]  # [n] each
        variances = means[:, 1:4] - np.stack(squared, axis=1)  # [n, 3]
        return variances / variances.sum(axis=1, keepdims=True)

    found = jackknife(shares, sums_by_group(columns, document), confidence).as_json()
    return dict(zip(("position", "rest", "shared"), found, strict=True))


def share_between_positions(
    states: NDArray[np.floating], position: ArrayLike, document: ArrayLike, confidence: float
) -> Estimate:
    """Share of the variance of hidden states that lies between positions, mean over d_model.

    Of each dimension :func:`posenc.metrics.moments.share_between` the k positions of n tokens.
    Without any relation its mean is 0.

    Parameters
    ----------
    states
        [tokens, d_model], of any float type.
    position, document
        int [tokens].
    confidence
        Of the interval by leaving one document out at a time.

    Raises
    ------
    ValueError
        If no position has two tokens, when a document is left out too.
    """
    document = np.unique(document, return_inverse=True)[1]  # [tokens]
    position = np.unique(position, return_inverse=True)[1]  # [tokens]
    x = np.asarray(states, np.float64) - np.mean(states, axis=0, dtype=np.float64)
    counts = np.bincount(position)  # [k]
    sums = sums_by_group(x, position)  # [k, d_model]
    between = np.square(sums) / counts[:, None]  # [k, d_model]
    whole = [counts, np.zeros(x.shape[1]), np.square(x).sum(axis=0), between.sum(axis=0)]
    left_out = []
    for own in np.split(np.argsort(document, kind="stable"), np.cumsum(np.bincount(document))[:-1]):
        at, here = np.unique(position[own], return_inverse=True)  # positions of the document
        fewer, moved = counts.copy(), -x[own].sum(axis=0)  # [k], [d_model]
        fewer[at] -= np.bincount(here)
        less = np.square(sums[at] - sums_by_group(x[own], here))  # [at, d_model]
        less = np.where(fewer[at, None] > 0, less / np.maximum(fewer[at, None], 1), 0)
        squares = whole[2] - np.square(x[own]).sum(axis=0)  # [d_model]
        left_out.append(_corrected(fewer, moved, squares, whole[3] + (less - between[at]).sum(0)))
    return interval(_corrected(*whole), np.array(left_out), confidence)


def _corrected(
    counts: NDArray[np.int64],  # [k]
    total: NDArray[np.float64],  # [d_model]
    squares: NDArray[np.float64],  # [d_model]
    between: NDArray[np.float64],  # [d_model]
) -> float:
    """Corrected eta squared from sums, of squares, and of squared sums by position over counts."""
    n, k = counts.sum(), np.count_nonzero(counts)
    if n <= k:
        raise ValueError("no position has two tokens: nothing is known within positions")
    whole, between = squares - total**2 / n, between - total**2 / n  # [d_model] each
    varies = whole > EPS * squares.max()  # [d_model]
    if not varies.any():
        raise ValueError("all hidden states are the same: they have no variance")
    return float(share_between(whole[varies], between[varies], n, k).mean())


def amplitudes(signal: ArrayLike) -> NDArray[np.float64]:
    """Amplitude spectrum along the sequence, |DFT| / window, mean over d_model.

    From [..., window, d_model] to float64 [..., window // 2 + 1], at 0, 1 / window, ... cycles a
    token.
    """
    signal = np.asarray(signal, np.float64)  # [..., window, d_model]
    return amplitude_spectrum(signal).mean(axis=-1) / signal.shape[-2]


def scaled_spectrum(
    scale: ArrayLike, position: ArrayLike, gain: ArrayLike, confidence: float
) -> dict[str, Any]:
    """Spectrum of S P L along the sequence, against that of P L times the mean of S.

    Parameters
    ----------
    scale
        [documents, window]: S of the tokens at the same positions.
    position, gain
        [window, d_model], position embeddings of those; and [d_model].
    confidence
        Of the interval by leaving one document out at a time.

    Returns
    -------
    ``frequency`` in cycles per token; ``position``, P L with S at its mean everywhere; and
    ``scaled``, S P L, mean over documents. They are the same where S is the same everywhere.
    """
    scale, position = np.asarray(scale, np.float64), np.asarray(position, np.float64)
    centred = position - position.mean(axis=-1, keepdims=True)  # [window, d_model]
    carried = centred * np.asarray(gain, np.float64)  # [window, d_model]
    each = np.stack([amplitudes(row[:, None] * carried) for row in scale])  # [documents, k]
    columns = np.concatenate([np.ones((len(each), 1)), each], axis=1)  # [documents, 1 + k]
    return {
        "frequency": frequencies(len(position)).tolist(),
        "position": (scale.mean() * amplitudes(carried)).tolist(),
        "scaled": jackknife(lambda sums: sums[:, 1:] / sums[:, :1], columns, confidence).as_json(),
    }


def of_normalisation(
    x: ArrayLike, added: ArrayLike, position: ArrayLike, document: ArrayLike, *,
    gain: ArrayLike, bias: ArrayLike, eps: float, confidence: float,
) -> dict[str, Any]:  # fmt: skip
    """What one layer normalisation does to the position that was added to its input.

    Position 0 is kept apart: its token is the same in every document.

    Parameters
    ----------
    x, added
        [tokens, d_model], of whole documents; and [positions, d_model], what was added to it.
    position, document
        int [tokens].
    gain, bias, eps
        As of :func:`parts`.
    confidence
        Of the intervals by :func:`jackknife`.

    Returns
    -------
    ``scale`` (:func:`scale_spread`) and, at position 0, ``scale_at_first``; ``shares``
    (:func:`variance_shares`); and ``spectrum`` (:func:`scaled_spectrum`) of the first ``window``
    tokens after position 0, which at least half of the documents have: ``windows`` of them.
    """
    position, document = np.asarray(position), np.asarray(document)  # [tokens] each
    table = np.asarray(added)  # [positions, d_model]
    of_position = table[position].astype(np.float64)  # [tokens, d_model]
    rest, moved, scale = split(np.asarray(x) - of_position, of_position, gain, bias, eps)
    later = position > 0  # [tokens]
    sizes = np.bincount(document)  # [documents]
    window = int(np.quantile(sizes[sizes > 1], 0.5, method="lower")) - 1
    full = (sizes[document] > window) & later & (position <= window)  # [tokens]
    own = document[later]
    return {
        "scale": scale_spread(scale[later], position[later], own, confidence),
        "scale_at_first": float(scale[~later].mean()),
        "shares": variance_shares(rest[later], moved[later], own, confidence),
        "window": window,
        "windows": int(full.sum()) // window,
        "spectrum": scaled_spectrum(
            scale[full].reshape(-1, window), table[1 : window + 1], gain, confidence
        ),
    }
