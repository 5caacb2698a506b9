"""What the weights of an attention head say about offsets between query and key.

The scores of a head before scaling are X W^Q W^Kᵀ Xᵀ, and of W^Q W^Kᵀ = U^Q S U^Kᵀ only d_head
singular values are not zero. X U^Q and X U^K are pairs of signals along the sequence; a shift
between the two makes the head attend to that offset. Yamamoto and Matsuzaki (2023),
https://aclanthology.org/2023.emnlp-main.2, sections 4 and 5.

An offset is the position of the key minus that of the query: the previous token has -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.norms import layer_norm
from posenc.metrics.null_tables import spread
from posenc.metrics.spectra import amplitude_spectrum

Floats = NDArray[np.float64]
ROTATIONS = 10
"""Pairs of rotations of a null space."""


@dataclass(frozen=True, eq=False)
class Factors:
    """W^Q W^Kᵀ = query @ diag(singular) @ key.T, with r = min(d, d_head).

    Attributes
    ----------
    query, key
        float64 [..., d, r]: U^Q and U^K, with orthonormal columns.
    singular
        float64 [..., r]: not negative, falling.
    """

    query: Floats
    singular: Floats
    key: Floats


def augmented(weight: ArrayLike, bias: ArrayLike) -> Floats:
    """A weight with its bias as a last row: [x, 1] @ [W; b] = x @ W + b.

    Parameters
    ----------
    weight
        [..., d, d_head].
    bias
        [..., d_head].

    Returns
    -------
    float64 [..., d + 1, d_head].

    Examples
    --------
    >>> augmented([[1.0], [2.0]], [3.0]).tolist()
    [[1.0], [2.0], [3.0]]
    """
    weight, bias = np.asarray(weight, np.float64), np.asarray(bias, np.float64)
    return np.concatenate([weight, bias[..., None, :]], axis=-2)


def head_factors(query: ArrayLike, key: ArrayLike) -> Factors:
    """Singular value decomposition of W^Q W^Kᵀ, by way of a d_head by d_head matrix.

    With W^Q = A R and W^K = B T by QR, W^Q W^Kᵀ = A (R Tᵀ) Bᵀ: the decomposition of the small
    R Tᵀ gives that of the whole. No matrix of d by d is made.

    Parameters
    ----------
    query, key
        [..., d, d_head]: W^Q and W^K of a head, or of several, see :func:`augmented` for biases.

    Returns
    -------
    Factors
        A column of U^Q and its counterpart of U^K share a sign that is free: the entry of U^Q with
        the largest absolute value is made positive. Columns with equal singular values are
        determined up to a rotation that both sides share, those with the singular value 0 not at
        all.

    Raises
    ------
    ValueError
        If the shapes differ, or a weight is not finite.

    Notes
    -----
    W^Q ← W^Q M and W^K ← W^K M^-T leave the product, and so all that is returned, as they are.
    """
    query, key = np.asarray(query, np.float64), np.asarray(key, np.float64)  # [..., d, d_head]
    if query.shape != key.shape or query.ndim < 2:
        raise ValueError(f"shapes {query.shape} and {key.shape} are not the same [..., d, d_head]")
    if not (np.isfinite(query).all() and np.isfinite(key).all()):
        raise ValueError("a weight is not finite")
    a, r = np.linalg.qr(query)  # [..., d, r], [..., r, d_head]
    b, t = np.linalg.qr(key)  # [..., d, r], [..., r, d_head]
    left, singular, right = np.linalg.svd(r @ np.swapaxes(t, -1, -2))
    u_query, u_key = a @ left, b @ np.swapaxes(right, -1, -2)  # [..., d, r] each
    largest = np.abs(u_query).argmax(axis=-2)[..., None, :]  # [..., 1, r]
    sign = np.where(np.take_along_axis(u_query, largest, axis=-2) < 0, -1.0, 1.0)  # [..., 1, r]
    return Factors(u_query * sign, singular, u_key * sign)


def position_input(
    positions: ArrayLike, constant: ArrayLike, gain: ArrayLike, bias: ArrayLike, eps: float
) -> Floats:
    """What a block reads if there is nothing but position: LN(P_p + constant).

    Parameters
    ----------
    positions
        [positions, d_model]: position embeddings.
    constant
        [d_model]: what stands for the tokens, such as the mean token embedding.
    gain, bias
        [d_model]: of the layer normalisation.
    eps
        Added to its variance.

    Returns
    -------
    float64 [positions, d_model].
    """
    x = np.asarray(positions, np.float64) + np.asarray(constant, np.float64)
    return layer_norm(x, eps) * np.asarray(gain, np.float64) + np.asarray(bias, np.float64)


def trace_by_offset(queries: ArrayLike, keys: ArrayLike, offsets: int) -> Floats:
    """Sum of Q Kᵀ over each diagonal: tr_t(Q Kᵀ) = Σ_i q_i · k_(i+t).

    Parameters
    ----------
    queries, keys
        [tokens, d_head].
    offsets
        Diagonals from -offsets to +offsets; fewer than tokens.

    Returns
    -------
    float64 [2 offsets + 1].
    """
    queries, keys = np.asarray(queries, np.float64), np.asarray(keys, np.float64)
    _check_length(len(queries), offsets)
    scores = queries @ keys.T  # [tokens, tokens]
    return np.array([np.trace(scores, t) for t in range(-offsets, offsets + 1)])


def cross_correlations(a: ArrayLike, b: ArrayLike, offsets: int) -> Floats:
    """Cross-correlation of corresponding columns: xcorr_j(t) = Σ_i a_ij b_(i+t)j.

    Σ_j s_j xcorr_j(t), with a = X U^Q and b = X U^K, is tr_t(Q Kᵀ).

    Parameters
    ----------
    a, b
        [..., tokens, r]: signals along the sequence.
    offsets
        t from -offsets to +offsets; fewer than tokens.

    Returns
    -------
    float64 [..., 2 offsets + 1, r].
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)  # [..., tokens, r] each
    tokens = a.shape[-2]
    _check_length(tokens, offsets)
    correlations = []
    for t in range(-offsets, offsets + 1):
        queries = slice(max(0, -t), min(tokens, tokens - t))
        keys = slice(max(0, t), min(tokens, tokens + t))
        correlations.append(np.sum(a[..., queries, :] * b[..., keys, :], axis=-2))  # [..., r]
    return np.stack(correlations, axis=-2)


@dataclass(frozen=True, eq=False)
class PairSpectra:
    """The strongest common frequency of pairs of signals, float64 [..., r] each.

    Attributes
    ----------
    frequency
        Cycles per token.
    phase
        Radians in (-π, π].
    lag
        phase / (2π frequency), tokens: the offset, key minus query, at which the pair's scores are
        highest. Only known up to multiples of 1 / frequency.
    share
        Share of this frequency in Σ_f |cross spectrum|, in [0, 1].
    coherence
        Squared, in [0, 1]: 1 if one signal is a shift of the other at this frequency.
    amplitude
        Half the product of both amplitudes: the mean over queries of a_i b_(i+lag).
    """

    frequency: Floats
    phase: Floats
    lag: Floats
    share: Floats
    coherence: Floats
    amplitude: Floats


def pair_spectra(a: ArrayLike, b: ArrayLike) -> PairSpectra:
    """Dominant frequency of the cross spectrum of corresponding columns, and the shift there.

    With b_i = a_(i-L), the cross-correlation Σ_i a_i b_(i+t) is largest at t = L. Then
    A conj(B) has the phase 2πfL at each frequency f, and L is the lag. The constant is removed and
    a Hann window applied; the frequency is interpolated between bins by Grandke (1983),
    https://doi.org/10.1109/TIM.1983.4315077, exact for one sinusoid. Phase, share, coherence and
    amplitude are of the bin and its two neighbours, over which the window spreads a sinusoid.

    Parameters
    ----------
    a, b
        [..., tokens, r]: signals of queries and of keys, of 8 tokens at least.

    Returns
    -------
    PairSpectra
        All zero but the frequency where a signal is constant.

    Raises
    ------
    ValueError
        If the shapes differ, or there are fewer than 8 tokens.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)  # [..., tokens, r] each
    if a.shape != b.shape or a.ndim < 2 or a.shape[-2] < 8:
        raise ValueError(f"shapes {a.shape} and {b.shape} are not the same [..., 8 or more, r]")
    tokens = a.shape[-2]
    window = np.hanning(tokens + 1)[:-1, None]  # [tokens, 1], periodic
    spectra = [np.fft.rfft(_without_constant(x, window) * window, axis=-2) for x in (a, b)]
    # Without the bin of the constant, [..., frequencies, r].
    first, second = (spectrum[..., 1:, :] for spectrum in spectra)
    cross = first * second.conj()
    size = np.abs(cross)  # [..., frequencies, r]
    peak = size.argmax(axis=-2)[..., None, :]  # [..., 1, r]

    def near(values: NDArray, shift: int) -> NDArray:
        index, last = peak + shift, values.shape[-2] - 1
        inside = (index >= 0) & (index <= last)
        return np.where(inside, np.take_along_axis(values, index.clip(0, last), axis=-2), 0)[
            ..., 0, :
        ]

    def lobe(values: NDArray) -> NDArray:
        return near(values, -1) + near(values, 0) + near(values, 1)  # [..., r]

    joint = lobe(cross)
    below, middle, above = (near(size, shift) for shift in (-1, 0, 1))
    # The size is a product of two amplitudes.
    ratio = np.sqrt(_divided(np.maximum(below, above), middle))
    shift = np.where(above >= below, 1, -1) * (2 * ratio - 1) / (ratio + 1)
    frequency = (peak[..., 0, :] + 1 + np.clip(shift, -0.5, 0.5)) / tokens
    phase = np.angle(joint)
    powers = lobe(np.abs(first) ** 2) * lobe(np.abs(second) ** 2)
    return PairSpectra(
        frequency=frequency,
        phase=phase,
        lag=phase / (2 * np.pi * frequency),
        share=_divided(lobe(size), size.sum(axis=-2)),
        coherence=np.minimum(1, _divided(np.abs(joint) ** 2, powers)),
        # Positive and negative frequencies, by Parseval, and the energy of the window.
        amplitude=2 * np.abs(joint) / (tokens * np.sum(window**2)),
    )


class NullRotation(NamedTuple):
    """What changes when the null space of W^Q W^Kᵀ is turned.

    Attributes
    ----------
    weights
        Largest change of an entry of W^Q W^Kᵀ, relative to its largest entry.
    null_spectra
        Relative change of the amplitude spectra of X U^Q, in the Frobenius norm, of the null
        columns: mean, least and most over pairs of rotations.
    identified_spectra
        The largest of the other columns.
    singular_values
        Largest difference of :func:`head_factors` from the full decomposition, relative to the
        largest.
    """

    weights: float
    null_spectra: dict[str, float] | None
    identified_spectra: float
    singular_values: float


def null_rotation_demonstration(
    query: ArrayLike, key: ArrayLike, x: ArrayLike, seed: int
) -> NullRotation:
    """Turn the null space of W^Q W^Kᵀ, and see what of U changes although the weights do not.

    The full decomposition has d columns in U^Q, but d - d_head of them belong to the singular value
    0: any rotation among them is a decomposition as good. What a full X U^Q shows there is an
    arbitrary choice of the algorithm. Two bases that are both turned at random are compared, so
    that this choice, which follows rounding, is no part of what is found.

    Parameters
    ----------
    query, key
        [d, d_head]: W^Q and W^K of one head; d > d_head + 1.
    x
        [tokens, d]: what the head reads.
    seed
        Seed of the rotations.

    Returns
    -------
    NullRotation
        Changes over ``ROTATIONS`` pairs of rotations.

    Raises
    ------
    ValueError
        If there is no null space to turn.
    """
    query, key = np.asarray(query, np.float64), np.asarray(key, np.float64)  # [d, d_head] each
    d, d_head = query.shape
    if d <= d_head + 1:
        raise ValueError(f"d is {d} and d_head {d_head}: there is no null space to turn")
    product = query @ key.T  # [d, d]
    left, singular, right = np.linalg.svd(product)  # [d, d], [d], [d, d]
    generator = np.random.default_rng(seed)
    weights, null, identified = np.empty((3, ROTATIONS))  # [rotations] each
    for draw in range(ROTATIONS):
        basis, other_basis, keys = (
            np.hstack([u[:, :d_head], u[:, d_head:] @ _rotation(d - d_head, generator)])
            for u in (left, left, right.T)
        )  # [d, d] each
        weights[draw] = np.abs(basis * singular @ keys.T - product).max() / np.abs(product).max()
        before, after = (
            amplitude_spectrum(np.asarray(x, np.float64) @ u, axis=0) for u in (basis, other_basis)
        )  # [frequencies, d] each
        null[draw], identified[draw] = (
            np.linalg.norm((after - before)[:, part]) / np.linalg.norm(before[:, part])
            for part in (slice(d_head, None), slice(d_head))
        )
    ours = head_factors(query, key).singular  # [d_head]
    return NullRotation(
        weights=float(weights.max()),
        null_spectra=spread(null),
        identified_spectra=float(identified.max()),
        singular_values=float(np.abs(singular[:d_head] - ours).max() / singular[0]),
    )


def _check_length(tokens: int, offsets: int) -> None:
    if not 0 <= offsets < tokens:
        raise ValueError(f"offsets is {offsets}; {tokens} tokens have offsets below {tokens}")


def _without_constant(x: Floats, window: Floats) -> Floats:
    """Signals without their mean under the window; what is left of a constant one is 0."""
    mean = np.sum(x * window, axis=-2, keepdims=True) / window.sum()  # [..., 1, r]
    rest = x - mean
    noise = 1e-13 * np.abs(x).max(axis=-2, keepdims=True)  # [..., 1, r]
    return np.where(np.abs(rest).max(axis=-2, keepdims=True) > noise, rest, 0)


def _divided(a: Floats, b: Floats) -> Floats:
    """a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def _rotation(d: int, generator: np.random.Generator) -> Floats:
    """A random orthogonal matrix [d, d]."""
    return np.linalg.qr(generator.normal(size=(d, d)))[0]
