"""Columns of a window of tokens as signals along the sequence: spectra, bands, attention.

A column is one dimension of hidden states, queries or keys. Its discrete Fourier transform over
the n tokens of a window has the frequencies k / n cycles per token, k = 0, ..., n // 2. What
repeats every p tokens lies at the frequency 1 / p. Frequency 0 is the mean of the column. Yamamoto
and Matsuzaki (2023), https://aclanthology.org/2023.emnlp-main.2, sections 3 and 4, look at the
columns of position embeddings, queries and keys in this way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def frequencies(tokens: int) -> NDArray[np.float64]:
    """Frequencies of a window, in cycles per token.

    Parameters
    ----------
    tokens
        Length n of the window, 2 at least.

    Returns
    -------
    float64 [n // 2 + 1]: k / n, from 0 to 1/2 or just below. The periods are the inverses, in
    tokens; frequency 0 has none.

    Raises
    ------
    ValueError
        If the window is shorter than 2 tokens.

    Examples
    --------
    >>> frequencies(8).tolist()
    [0.0, 0.125, 0.25, 0.375, 0.5]
    """
    from scipy import fft

    if tokens < 2:
        raise ValueError(f"a window of {tokens} tokens has no frequency but 0")
    return fft.rfftfreq(tokens)


def amplitude_spectrum(signals: ArrayLike, axis: int = -2) -> NDArray[np.floating]:
    """Modulus of the discrete Fourier transform along the sequence.

    |Σ_t x_t exp(-2πi k t / n)| for k = 0, ..., n // 2: ``spec`` of Yamamoto and Matsuzaki (2023).

    Parameters
    ----------
    signals
        [..., n, columns]: float32 or float64.
    axis
        The axis of the tokens.

    Returns
    -------
    Array of the same type, with n // 2 + 1 frequencies in the place of the tokens. A sine of
    amplitude a with a whole number of periods has the value a n / 2 at its frequency, and 0
    elsewhere.

    Raises
    ------
    ValueError
        If there are fewer than 2 tokens, or a value is not finite.
    """
    return np.abs(_transform(signals, axis))


def power_spectrum(signals: ArrayLike, axis: int = -2) -> NDArray[np.floating]:
    """One-sided power by frequency, whose sum is the mean square of the signal.

    P_k = c_k |Σ_t x_t exp(-2πi k t / n)|² / n², where c_k = 1 for k = 0 and k = n / 2, which have
    no mirror image among the negative frequencies, and 2 for all others. By Parseval's theorem
    Σ_k P_k = Σ_t x_t² / n. Press et al. (2007), *Numerical Recipes*, section 13.4.

    Parameters
    ----------
    signals
        [..., n, columns]: float32 or float64.
    axis
        The axis of the tokens.

    Returns
    -------
    Array of the same type, with n // 2 + 1 frequencies in the place of the tokens. A sine of
    amplitude a with a whole number of periods has the power a² / 2 at its frequency, and 0
    elsewhere; P_0 is the square of the mean.

    Raises
    ------
    ValueError
        If there are fewer than 2 tokens, or a value is not finite.
    """
    signals = np.asarray(signals)  # [..., n, columns]
    transform = _transform(signals, axis)  # [..., n // 2 + 1, columns], complex
    tokens = signals.shape[axis]
    power = np.square(transform.real) + np.square(transform.imag)  # [..., n // 2 + 1, columns]
    shape = [1] * power.ndim
    shape[axis] = -1
    power *= sides(tokens).astype(power.dtype).reshape(shape) / tokens**2
    return power


def locked_share(mean_power: ArrayLike, power_of_mean: ArrayLike, n: int) -> NDArray[np.float64]:
    """Share of the power that windows have in common, by frequency.

    A window of document i is x_i = μ + e_i: what all windows share at a position, and what
    is the document's own, e_i, independent and of mean zero. Then the mean power of the windows
    is |μ|² + σ² and the power of their mean |μ|² + σ² / n. The share is |μ|² / (|μ|² + σ²),
    estimated by (n R - 1) / (n - 1) with R the ratio of the power of the mean to the mean power,
    whose expectation is 1 / n, and not 0, where windows share nothing.

    Parameters
    ----------
    mean_power
        [...]: mean over windows of their power, such as by layer and frequency.
    power_of_mean
        [...]: power of the mean window.
    n
        Number of windows, 2 at least.

    Returns
    -------
    float64 [...]: 1 where all windows are the same; about 0, with either sign, where they
    share nothing. 0 where there is no power.

    Raises
    ------
    ValueError
        If n is less than 2, the shapes differ, or a power is negative or not finite.

    Notes
    -----
    Windows must begin at the same position of their documents: otherwise what depends on position
    has another phase in each.
    """
    total = np.asarray(mean_power, np.float64)  # [...]
    shared = np.asarray(power_of_mean, np.float64)  # [...]
    if n < 2:
        raise ValueError(f"{n} windows: what they share is known from 2 on")
    if total.shape != shared.shape:
        raise ValueError(f"powers have shapes {total.shape} and {shared.shape}")
    if not (np.isfinite(total) & np.isfinite(shared) & (total >= 0) & (shared >= 0)).all():
        raise ValueError("powers must be finite and not negative")
    ratio = np.divide(shared, total, out=np.full_like(total, 1 / n), where=total > 0)
    return (n * ratio - 1) / (n - 1)


def band_masks(tokens: int, limits: Sequence[float]) -> NDArray[np.bool_]:
    """Which frequencies belong to which band.

    Parameters
    ----------
    tokens
        Length n of the window.
    limits
        Rising limits b_1 < ... < b_m between bands, in cycles per token, within (0, 1/2). The bands
        are [0, b_1), [b_1, b_2), ..., [b_m, 1/2]; the mean of a column belongs to the first.

    Returns
    -------
    bool [m + 1, n // 2 + 1]: each frequency is in one band.

    Raises
    ------
    ValueError
        If the limits do not rise within (0, 1/2), or a band holds no frequency of the window.
    """
    edges = np.array([0.0, *limits, np.inf])
    if len(edges) < 3 or np.any(np.diff(edges) <= 0) or edges[-2] >= 0.5:
        raise ValueError(f"limits {list(limits)} of bands must rise between 0 and 0.5")
    band = np.searchsorted(edges, frequencies(tokens), side="right") - 1  # [n // 2 + 1]
    masks = band == np.arange(len(edges) - 1)[:, None]  # [bands, n // 2 + 1]
    if not masks.any(axis=1).all():
        empty = int(np.argmin(masks.any(axis=1)))
        raise ValueError(
            f"band {empty} of the limits {list(limits)} holds no frequency of a window of "
            f"{tokens} tokens"
        )
    return masks


def band_pass(signals: ArrayLike, masks: ArrayLike, axis: int = -2) -> NDArray[np.floating]:
    """Keep some frequencies of signals along the sequence.

    Each filter is an orthogonal projection: applied twice it is the same. Filters of masks that
    part the frequencies sum to the signal; with all frequencies it is the signal.

    Parameters
    ----------
    signals
        [..., n, columns]: float32 or float64.
    masks
        bool [filters, n // 2 + 1]: frequencies that each filter keeps.
    axis
        The axis of the tokens.

    Returns
    -------
    Array of the same type, [filters, ..., n, columns].

    Raises
    ------
    ValueError
        If the masks do not fit the window, or a value is not finite.
    """
    from scipy import fft

    signals, masks = np.asarray(signals), np.asarray(masks, bool)
    transform = _transform(signals, axis)  # [..., n // 2 + 1, columns], complex
    if masks.ndim != 2 or masks.shape[1] != transform.shape[axis]:
        raise ValueError(
            f"masks of shape {masks.shape} do not fit the {transform.shape[axis]} frequencies of "
            f"{signals.shape[axis]} tokens"
        )
    shape = [1] * transform.ndim
    shape[axis] = -1
    kept = np.stack([transform * mask.reshape(shape) for mask in masks])
    return fft.irfft(kept, n=signals.shape[axis], axis=axis if axis < 0 else axis + 1)


def pattern_distance(p: ArrayLike, q: ArrayLike) -> NDArray[np.floating]:
    """Total variation distance of attention patterns, as a mean over queries.

    ½ Σ_j |p_ij - q_ij|, the largest difference in the attention to any set of keys.

    Parameters
    ----------
    p, q
        [..., n, n]: attention patterns; leading axes are broadcast.

    Returns
    -------
    Array [...], in [0, 1]: 0 for equal patterns, 1 for those that share no key. Levin, Peres and
    Wilmer (2009), *Markov Chains and Mixing Times*, proposition 4.2.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    p, q = np.asarray(p), np.asarray(q)  # [..., n, n] each
    if p.shape[-2:] != q.shape[-2:] or p.ndim < 2:
        raise ValueError(f"patterns have shapes {p.shape} and {q.shape}")
    difference = p - q  # [..., n, n]
    np.abs(difference, out=difference)
    return difference.sum(axis=-1).mean(axis=-1) / 2


def _transform(signals: ArrayLike, axis: int) -> NDArray[np.complexfloating]:
    from scipy import fft

    signals = np.asarray(signals)  # [..., n, columns]
    if signals.ndim < 1 or signals.shape[axis] < 2:
        raise ValueError(f"signals of shape {signals.shape} have fewer than 2 tokens")
    transform = fft.rfft(signals, axis=axis)  # [..., n // 2 + 1, columns]
    # Any value that is not finite spreads to all frequencies: the first tells.
    if not np.isfinite(np.take(transform, 0, axis=axis)).all():
        raise ValueError("a signal holds a value that is not finite")
    return transform


def sides(tokens: int) -> NDArray[np.float64]:
    """How often a frequency occurs in the two-sided transform, [n // 2 + 1]."""
    times = np.full(tokens // 2 + 1, 2.0)  # [n // 2 + 1]
    times[0] = 1
    if tokens % 2 == 0:
        times[-1] = 1
    return times
