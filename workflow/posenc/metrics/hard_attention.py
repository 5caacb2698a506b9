"""Soft and hard read-outs of an attention pattern, and how noisy hard attention's gradient is.

A soft read-out is the mean Σ_i p_i v_i of annotations v_i (Bahdanau et al. (2015), equation 5,
https://arxiv.org/abs/1409.0473); a hard one is a single v_i, drawn with probability p_i (Xu et al.
(2015), section 4.1, https://arxiv.org/abs/1502.03044). Of p = softmax(z), ∇_z log p_i = e_i - p, so
the gradient of an objective's expectation is E[f_i (e_i - p)], which sampling estimates (Williams
(1992), https://doi.org/10.1007/BF00992696). Subtracting a baseline b from f leaves the expectation
alone and changes the variance.

Everything here is of one query: ``pattern`` is float64 [keys], ``objective`` float64 [keys].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

BASELINES = ("none", "mean", "optimal")
"""b = 0, b = E[f], and the b with the least variance.

With b = 0 the variance depends on where the objective has its 0; with the others it does not.
"""


def standardised(values: ArrayLike) -> Floats:
    """Rows less their mean, divided by their standard deviation: layer norm without gain or bias.

    Parameters
    ----------
    values
        [..., d_model].

    Returns
    -------
    float64 [..., d_model]: rows of squared norm d_model.

    Raises
    ------
    ValueError
        If a row is constant, or not finite.
    """
    values = np.asarray(values, np.float64)  # [..., d_model]
    centred = values - values.mean(axis=-1, keepdims=True)  # [..., d_model]
    sd = np.sqrt(np.mean(np.square(centred), axis=-1, keepdims=True))  # [..., 1]
    if not (np.isfinite(values).all() and (sd > 0).all()):
        raise ValueError("a hidden state is constant or not finite")
    return centred / sd


def scaled_to(values: ArrayLike, target: ArrayLike) -> tuple[Floats, Floats]:
    """Values and target in units of the target: both divided by its root mean square.

    The soft read-out of scaled values is the scaled soft read-out. A read-out of 0 has the
    objective -1/2 then, as the target has the squared norm d_model.

    Parameters
    ----------
    values
        [..., d_model].
    target
        [d_model].

    Returns
    -------
    float64 [..., d_model] and [d_model].

    Raises
    ------
    ValueError
        If the target is 0, or anything is not finite.
    """
    values, target = np.asarray(values, np.float64), np.asarray(target, np.float64)
    scale = np.sqrt(np.mean(np.square(target)))
    if not (np.isfinite(values).all() and np.isfinite(scale) and scale > 0):
        raise ValueError("what attention gives is 0 or not finite")
    return values / scale, target / scale


def log_likelihood(values: ArrayLike, target: ArrayLike) -> Floats:
    """Objective f(v) = -‖v - t‖² / (2 d) of read-outs v for a target t.

    The log-density, for each of d dimensions and less its constant, of the target under a normal
    law of variance 1 about the read-out: what Xu et al. (2015) call log p(y | a). It is concave.

    Parameters
    ----------
    values
        [..., d_model].
    target
        [d_model].

    Returns
    -------
    float64 [...], not above 0.

    Examples
    --------
    >>> log_likelihood([[1.0, 1.0], [3.0, 1.0]], [1.0, 1.0]).tolist()
    [-0.0, -1.0]
    """
    values, target = np.asarray(values, np.float64), np.asarray(target, np.float64)
    return -np.mean(np.square(values - target), axis=-1) / 2


@dataclass(frozen=True)
class Readouts:
    """What the soft and the hard read-out of one pattern attain.

    Attributes
    ----------
    soft
        f(Σ_i p_i v_i).
    hard
        Σ_i p_i f(v_i): the expectation over hard read-outs.
    spread
        Σ_i p_i ‖v_i - v̄‖²: total variance of a hard read-out, whose expectation v̄ is the soft one.
        For the objective of :func:`log_likelihood`, soft - hard is spread / (2 d) exactly.
    entropy
        Of the pattern, nats.
    """

    soft: float
    hard: float
    spread: float
    entropy: float


def readouts(pattern: ArrayLike, values: ArrayLike, target: ArrayLike) -> Readouts:
    """Soft and hard read-outs of the objective of :func:`log_likelihood`.

    Parameters
    ----------
    pattern
        [keys]: sums to 1.
    values
        [keys, d_model].
    target
        [d_model].
    """
    from scipy.special import entr

    p = _checked(pattern)  # [keys]
    values = np.asarray(values, np.float64)  # [keys, d_model]
    mean = p @ values  # [d_model]
    return Readouts(
        soft=float(log_likelihood(mean, target)),
        hard=float(p @ log_likelihood(values, target)),
        spread=float(p @ np.square(values - mean).sum(axis=1)),
        entropy=float(entr(p).sum()),
    )


def enumerated_gradient(pattern: ArrayLike, objective: ArrayLike) -> Floats:
    """Gradient of E[f] = Σ_i p_i f_i with respect to the scores: Σ_i p_i f_i (e_i - p).

    Parameters
    ----------
    pattern, objective
        [keys] each; the pattern sums to 1.

    Returns
    -------
    float64 [keys]: p_i (f_i - E[f]), which sums to 0.
    """
    p, f = _both(pattern, objective)  # [keys] each
    return p * (f - p @ f)


def soft_gradient(pattern: ArrayLike, values: ArrayLike, target: ArrayLike) -> Floats:
    """Gradient of f(Σ_i p_i v_i) with respect to the scores, f of :func:`log_likelihood`.

    It is what back-propagation through soft attention gives: p_i (t - v̄)·(v_i - v̄) / d.

    Parameters
    ----------
    pattern
        [keys]: sums to 1.
    values
        [keys, d_model].
    target
        [d_model].

    Returns
    -------
    float64 [keys].
    """
    p = _checked(pattern)  # [keys]
    values, target = np.asarray(values, np.float64), np.asarray(target, np.float64)
    mean = p @ values  # [d_model]
    return p * ((values - mean) @ (target - mean)) / len(target)


def score_squares(pattern: ArrayLike) -> Floats:
    """Squared norm of the score function of each key: ‖e_i - p‖².

    Parameters
    ----------
    pattern
        [keys]: sums to 1.

    Returns
    -------
    float64 [keys].
    """
    p = _checked(pattern)  # [keys]
    return np.square(np.eye(len(p)) - p).sum(axis=1)


def optimal_baseline(pattern: ArrayLike, objective: ArrayLike) -> float:
    """The baseline with the least total variance: b* = E[f ‖e - p‖²] / E[‖e - p‖²].

    Greensmith et al. (2004), section 4.1, https://www.jmlr.org/papers/v5/greensmith04a.html. Where
    one key has all, no baseline changes anything; E[f] is returned.

    Parameters
    ----------
    pattern, objective
        As :func:`enumerated_gradient`.
    """
    p, f = _both(pattern, objective)  # [keys] each
    weights = p * score_squares(p)  # [keys]
    return float(weights @ f / weights.sum()) if weights.sum() > 0 else float(p @ f)


def baselines(pattern: ArrayLike, objective: ArrayLike) -> Floats:
    """The baselines of :data:`BASELINES`, float64 [3], in its order."""
    p, f = _both(pattern, objective)  # [keys] each
    return np.array([0.0, p @ f, optimal_baseline(p, f)])


def total_variance(
    pattern: ArrayLike, objective: ArrayLike, baseline: ArrayLike, samples: int = 1
) -> Floats:
    """Trace of the covariance of an estimate (1/T) Σ_t (f_(i_t) - b) (e_(i_t) - p), exactly.

    V_T = (E[(f - b)² ‖e - p‖²] - ‖∇E[f]‖²) / T, summed over all keys.

    Parameters
    ----------
    pattern, objective
        As :func:`enumerated_gradient`.
    baseline
        [...]: one b or several.
    samples
        T.

    Returns
    -------
    float64 [...].
    """
    p, f = _both(pattern, objective)  # [keys] each
    offset = f - np.asarray(baseline, np.float64)[..., None]  # [..., keys]
    second = np.square(offset) @ (p * score_squares(p))  # [...]
    square = np.square(enumerated_gradient(p, f)).sum()
    # Rounding: where no key but one is ever drawn, both terms vanish.
    return np.clip(second - square, 0, None) / samples


def variance_along(
    pattern: ArrayLike, objective: ArrayLike, baseline: ArrayLike, direction: ArrayLike
) -> Floats:
    """Variance of a direction's dot product with an estimate from one sample, exactly.

    Parameters
    ----------
    pattern, objective
        As :func:`enumerated_gradient`.
    baseline
        [...]: one b or several.
    direction
        [keys].

    Returns
    -------
    float64 [...].
    """
    p, f = _both(pattern, objective)  # [keys] each
    u = np.asarray(direction, np.float64)  # [keys]
    offset = f - np.asarray(baseline, np.float64)[..., None]  # [..., keys]
    products = offset * (u - p @ u)  # [..., keys]
    mean = products @ p  # [...]
    return np.square(products - mean[..., None]) @ p


@dataclass(frozen=True, eq=False)
class Simulation:
    """Estimates of one gradient, repeated, by baseline.

    Attributes
    ----------
    variance
        float64 [baselines]: their total variance (of the sample, n - 1).
    error
        float64 [baselines]: squared distance of their mean from the enumerated gradient.
    along
        float64 [baselines]: dot product of the enumerated gradient with the mean less it.
    frequencies
        float64 [keys]: share of all samples that each key has.
    """

    variance: Floats
    error: Floats
    along: Floats
    frequencies: Floats


def simulate(
    pattern: ArrayLike,
    objective: ArrayLike,
    baseline: ArrayLike,
    samples: int,
    repeats: int,
    generator: np.random.Generator,
) -> Simulation:
    """Draw keys, and estimate the gradient from them: Williams's REINFORCE.

    All baselines are given the same keys.

    Parameters
    ----------
    pattern, objective
        As :func:`enumerated_gradient`.
    baseline
        [baselines].
    samples
        T of an estimate.
    repeats
        Estimates, two at least.
    generator
        Where keys are drawn from.
    """
    p, f = _both(pattern, objective)  # [keys] each
    shares = drawn_shares(p, samples, repeats, generator)  # [repeats, keys]
    offset = f - np.asarray(baseline, np.float64)[:, None]  # [baselines, keys]
    # Of an estimate, only how often each key was drawn matters.
    estimates = shares * offset[:, None]  # [baselines, repeats, keys]
    estimates -= (offset @ shares.T)[..., None] * p
    mean = estimates.mean(axis=1)  # [baselines, keys]
    estimates -= mean[:, None]
    gradient = enumerated_gradient(p, f)  # [keys]
    bias = mean - gradient  # [baselines, keys]
    return Simulation(
        variance=np.einsum("brk,brk->b", estimates, estimates) / (repeats - 1),
        error=np.square(bias).sum(axis=1),
        along=bias @ gradient,
        frequencies=shares.mean(axis=0),
    )


def drawn_shares(
    pattern: ArrayLike, samples: int, repeats: int, generator: np.random.Generator
) -> Floats:
    """How often each key is drawn from a pattern, as a share of the samples.

    Parameters
    ----------
    pattern
        [keys]: sums to 1.
    samples, repeats
        Keys drawn in a repeat, and repeats.
    generator
        Where keys are drawn from.

    Returns
    -------
    float64 [repeats, keys]; rows sum to 1.
    """
    p = _checked(pattern)  # [keys]
    edges = np.cumsum(p)  # [keys]
    drawn = np.searchsorted(
        edges[:-1] / edges[-1], generator.random((repeats, samples)), side="right"
    )  # [repeats, samples]
    drawn += len(p) * np.arange(repeats)[:, None]  # one range of cells a repeat
    counts = np.bincount(drawn.ravel(), minlength=repeats * len(p))  # [repeats * keys]
    return counts.reshape(repeats, len(p)) / samples


def _both(pattern: ArrayLike, objective: ArrayLike) -> tuple[Floats, Floats]:
    p, f = _checked(pattern), np.asarray(objective, np.float64)  # [keys] each
    if p.shape != f.shape or not np.isfinite(f).all():
        raise ValueError(f"the objective has shape {f.shape}, not {p.shape}, or is not finite")
    return p, f


def _checked(pattern: ArrayLike) -> Floats:
    p = np.asarray(pattern, np.float64)  # [keys]
    if p.ndim != 1 or len(p) < 2:
        raise ValueError(f"a pattern of shape {p.shape} has no two keys to choose from")
    if not (np.isfinite(p).all() and (p >= 0).all() and abs(p.sum() - 1) < 1e-6):
        raise ValueError("a pattern's entries must be finite, not negative, and sum to 1")
    return p
