"""Bands of frequencies of a prefix: projections along the sequence that do not look ahead (C2).

A Fourier transform of a prefix takes its last token for a neighbour of its first, so that a filter
would mix the beginning of the document into the last token. Cosines (the DCT-II) do not: they go on
with the mirror image of a signal. They are orthonormal, and those of n tokens have the frequencies
k / 2n cycles per token, k = 0, ..., n - 1. Ahmed, Natarajan and Rao (1974),
https://doi.org/10.1109/T-C.1974.223784.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.spectra import frequencies

Basis = Callable[[int], NDArray[np.float64]]
"""Orthonormal signals of so many tokens, a row each: [tokens, tokens]."""


def waves(tokens: int) -> NDArray[np.float64]:
    """Orthonormal cosines of so many tokens.

    Parameters
    ----------
    tokens
        Length n of the signals, 1 at least.

    Returns
    -------
    float64 [n, n]: row k is the cosine of k / 2n cycles per token; row 0 is constant.
    """
    from scipy import fft

    return fft.dct(np.eye(tokens), axis=0, norm="ortho")


def wave_bands(tokens: int, limits: Sequence[float]) -> NDArray[np.bool_]:
    """Which cosines belong to which band.

    Parameters
    ----------
    tokens
        Length n of the signals.
    limits
        Rising limits b_1 < ... < b_m between bands, in cycles per token, as those of
        :func:`posenc.metrics.spectra.band_masks`: the constant belongs to the first band.

    Returns
    -------
    bool [m + 1, n]: each cosine is in one band. A short signal has no slow cosines, so that a band
    may be empty.
    """
    # Those of a window twice as long, but for the highest.
    cycles = frequencies(2 * tokens)[:tokens]  # [n], cycles per token
    band = np.searchsorted(limits, cycles, side="right")  # [n]
    return band == np.arange(len(limits) + 1)[:, None]


def random_directions(seed: int) -> Basis:
    """Orthonormal signals in uniformly random directions, others for each length.

    The Q of a Gaussian matrix, with the signs of R's diagonal. Mezzadri (2007),
    https://arxiv.org/abs/math-ph/0609050, section 5.
    """

    @functools.cache
    def drawn(tokens: int) -> NDArray[np.float64]:
        generator = np.random.default_rng([seed, tokens])
        q, r = np.linalg.qr(generator.normal(size=(tokens, tokens)))  # [tokens, tokens] each
        return (q * np.sign(np.diagonal(r))).T

    return drawn


def projection(basis: ArrayLike, kept: ArrayLike) -> NDArray[np.float64]:
    """The orthogonal projection onto some rows of a basis, [tokens, tokens].

    Parameters
    ----------
    basis
        [tokens, tokens], orthonormal rows.
    kept
        bool [tokens]: which of them; none of them give zeros.
    """
    rows = np.asarray(basis)[np.asarray(kept, bool)]  # [kept, tokens]
    return rows.T @ rows


def prefix_projections(
    tokens: int, basis: Basis, kept: Callable[[int], NDArray[np.bool_]]
) -> NDArray[np.float32]:
    """The projection of each prefix of a document, which knows nothing of what follows.

    Parameters
    ----------
    tokens
        Of the document. The projections of a shorter one are a part of these, [:n, :n, :n].
    basis, kept
        Of a number of tokens, as :func:`projection` takes them.

    Returns
    -------
    float32 [tokens, tokens, tokens]: of the prefix that ends at place i a matrix [i + 1, i + 1],
    and zeros beyond it.
    """
    projections = np.zeros((tokens, tokens, tokens), np.float32)
    for place in range(tokens):
        length = place + 1
        projections[place, :length, :length] = projection(basis(length), kept(length))
    return projections
