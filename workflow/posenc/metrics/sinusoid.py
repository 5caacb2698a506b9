"""Sinusoidal position embeddings, and the matrix that moves them along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.metrics.geometry import gram, toeplitz_residual

BASE = 10000.0
"""Ratio of the longest to the shortest wavelength, in the limit of many dimensions."""


def wavelengths(d_model: int) -> NDArray[np.float64]:
    """Wavelengths of the sinusoids, in tokens: 2π · 10000^(2i / d_model).

    Parameters
    ----------
    d_model
        Even; dimensions 2i and 2i + 1 have the same wavelength.

    Returns
    -------
    float64 [d_model / 2], rising from 2π. The last one is 2π · 10000^(1 - 2 / d_model): the limit
    10000 · 2π is never reached.

    Raises
    ------
    ValueError
        If ``d_model`` is odd or not positive.
    """
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model is {d_model}; it must be even and positive")
    return 2 * np.pi * BASE ** (np.arange(0, d_model, 2) / d_model)  # [d_model / 2]


def sinusoidal(rows: int, d_model: int) -> NDArray[np.float64]:
    """The fixed position embeddings of the Transformer.

    PE[p, 2i] = sin(p / 10000^(2i / d_model)), PE[p, 2i + 1] = cos(p / 10000^(2i / d_model)).

    Parameters
    ----------
    rows
        Positions.
    d_model
        Even.

    Returns
    -------
    float64 [rows, d_model]. Vaswani et al. (2017), section 3.5, https://arxiv.org/abs/1706.03762.

    Raises
    ------
    ValueError
        If ``d_model`` is odd, or there is no row.

    Notes
    -----
    Each row has the norm √(d_model / 2), and P Pᵀ depends on the offset alone: its entries are
    Σ_i cos(ω_i (p - q)).
    """
    if rows < 1:
        raise ValueError(f"{rows} rows; there must be one at least")
    frequencies = 2 * np.pi / wavelengths(d_model)  # [d_model / 2], radians per token
    angles = np.arange(rows)[:, None] * frequencies  # [rows, d_model / 2]
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # [rows, d_model / 2, 2]
    return pairs.reshape(rows, d_model)


def shift_matrix(k: int, d_model: int) -> NDArray[np.float64]:
    """The matrix M_k that moves every sinusoid by k positions: PE[p + k] = M_k PE[p] for all p.

    It is block diagonal; the block of dimensions 2i and 2i + 1 is the rotation
    ((cos ω_i k, sin ω_i k), (-sin ω_i k, cos ω_i k)), ω_i = 1 / 10000^(2i / d_model).

    Parameters
    ----------
    k
        Offset in positions, of either sign.
    d_model
        Even.

    Returns
    -------
    float64 [d_model, d_model], orthogonal; M_j M_k = M_{j+k}.

    Raises
    ------
    ValueError
        If ``d_model`` is odd.

    Notes
    -----
    The shift acts on the index of the position. One of the documents that this project follows
    writes it on the index of the dimension; there, no such matrix exists.
    """
    angles = 2 * np.pi * k / wavelengths(d_model)  # [d_model / 2]
    even = np.arange(0, d_model, 2)  # [d_model / 2]
    matrix = np.zeros((d_model, d_model))
    matrix[even, even] = matrix[even + 1, even + 1] = np.cos(angles)
    matrix[even, even + 1] = np.sin(angles)
    matrix[even + 1, even] = -np.sin(angles)
    return matrix


class Identities(NamedTuple):
    """How far sinusoids are from what they should be.

    Attributes
    ----------
    shifts
        Offsets by which rows are moved along.
    shift_residual
        Largest difference of rows that are moved along by :func:`shift_matrix`.
    squared_norm_residual
        That of squared norms from d_model / 2.
    gram_toeplitz_residual
        That of inner products from their means by offset.
    shortest, longest
        Of the :func:`wavelengths`, in tokens.
    """

    shifts: list[int]
    shift_residual: float
    squared_norm_residual: float
    gram_toeplitz_residual: float
    shortest: float
    longest: float


def identities(table: NDArray[np.float64]) -> Identities:
    """How far sinusoids are from what they should be: errors of rounding.

    Parameters
    ----------
    table
        [rows, d_model] of :func:`sinusoidal`.
    """
    rows, d_model = table.shape
    shifts = [2**power for power in range(rows.bit_length()) if 2**power < rows]
    shift = max(np.abs(table[:-k] @ shift_matrix(k, d_model).T - table[k:]).max() for k in shifts)
    lengths = wavelengths(d_model)  # [d_model / 2]
    return Identities(
        shifts=shifts,
        shift_residual=float(shift),
        squared_norm_residual=float(np.abs(np.square(table).sum(axis=1) - d_model / 2).max()),
        gram_toeplitz_residual=toeplitz_residual(gram(table)),
        shortest=float(lengths[0]),
        longest=float(lengths[-1]),
    )
