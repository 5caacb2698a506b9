"""Position embeddings as matrices and as signals: sinusoids, Gram matrices, spectra, components.

A table of position embeddings is E, [rows, d_model]: row p is the vector of position p. Its columns
are signals along the sequence, with frequencies in cycles a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    frequencies = 2 * np.pi / wavelengths(d_model)  # [d_model / 2], radians a token
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


def gram(table: ArrayLike) -> NDArray[np.float64]:
    """Inner products of all pairs of rows, E Eᵀ.

    Parameters
    ----------
    table
        [rows, d_model].

    Returns
    -------
    float64 [rows, rows], symmetric.
    """
    table = _checked(table)  # [rows, d_model]
    return table @ table.T


def cosine_map(table: ArrayLike) -> NDArray[np.float64]:
    """Cosines of all pairs of rows.

    Parameters
    ----------
    table
        [rows, d_model].

    Returns
    -------
    float64 [rows, rows], symmetric, in [-1, 1], 1 on the diagonal.

    Raises
    ------
    ValueError
        If a row is zero: it has no direction.
    """
    table = _checked(table)  # [rows, d_model]
    norms = np.linalg.norm(table, axis=1, keepdims=True)  # [rows, 1]
    if not norms.all():
        raise ValueError(f"row {int(np.argmin(norms))} is zero: it has no direction")
    return np.clip(gram(table / norms), -1, 1)


def offset_means(matrix: ArrayLike) -> NDArray[np.float64]:
    """Mean of each diagonal of a square matrix.

    Parameters
    ----------
    matrix
        [rows, rows].

    Returns
    -------
    float64 [2 rows - 1]: by offset, column minus row, from -(rows - 1) to rows - 1.

    Raises
    ------
    ValueError
        If the matrix is not square.
    """
    matrix = np.asarray(matrix, np.float64)  # [rows, rows]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"shape {matrix.shape} is not [rows, rows]")
    offsets = range(1 - len(matrix), len(matrix))
    return np.array([matrix.diagonal(offset).mean() for offset in offsets])


def toeplitz_residual(matrix: ArrayLike) -> float:
    """Largest deviation of an entry from the mean of its diagonal: 0 for a Toeplitz matrix."""
    matrix = np.asarray(matrix, np.float64)  # [rows, rows]
    means = offset_means(matrix)  # [2 rows - 1]
    return float(np.abs(matrix - means[_offset_index(len(matrix))]).max())


def toeplitz_share(matrix: ArrayLike) -> float:
    """Share of a matrix's variance that depends on the offset of column and row alone.

    1 - Σ (G_ij - m_{j-i})² / Σ (G_ij - Ḡ)², with m the mean of a diagonal and Ḡ that of all, over
    the entries off the main diagonal. It is 1 if, and only if, they are Toeplitz.

    Parameters
    ----------
    matrix
        [rows, rows], such as :func:`gram` of position embeddings.

    Returns
    -------
    float
        In [0, 1]. For entries that do not know their offset it is about 2 / rows, when the matrix
        is symmetric.

    Raises
    ------
    ValueError
        If the matrix is not square, has fewer than three rows, or has no variance.

    Notes
    -----
    The main diagonal of a Gram matrix holds the squared norms. Independent random rows have a large
    diagonal beside small entries elsewhere: taken in, it alone would give them a share of more than
    a half, where there is nothing of position.
    """
    matrix = np.asarray(matrix, np.float64)  # [rows, rows]
    means = offset_means(matrix)  # [2 rows - 1]
    if len(matrix) < 3:
        raise ValueError(f"{len(matrix)} rows are too few for entries of one offset to differ")
    off = ~np.eye(len(matrix), dtype=bool)  # [rows, rows]
    total = np.square(matrix[off] - matrix[off].mean()).sum()
    if total <= (1e-12 * np.abs(matrix).max()) ** 2 * off.sum():
        raise ValueError("the matrix is constant off its diagonal: no variance to explain")
    residual = np.square(matrix - means[_offset_index(len(matrix))])[off].sum()
    return float(1 - residual / total)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Amplitudes of the columns of a table along positions.

    Parameters
    ----------
    frequencies
        float64 [rows // 2 + 1]: cycles a token, 0 to 0.5.
    amplitudes
        float64 [rows // 2 + 1, d_model]: |DFT(E e_i)| of each column, unnormalised.
    rows
        Positions.
    """

    frequencies: NDArray[np.float64]  # [rows // 2 + 1]
    amplitudes: NDArray[np.float64]  # [rows // 2 + 1, d_model]
    rows: int

    @property
    def power(self) -> NDArray[np.float64]:
        """Sum of squares of each column by frequency, float64 [rows // 2 + 1, d_model].

        Over the frequencies it sums to Σ_p E[p, i]² (Parseval): each frequency stands for its
        negative too, but for 0 and, with an even number of rows, 0.5.
        """
        twice = np.full(len(self.frequencies), 2.0)  # [rows // 2 + 1]
        twice[0] = 1
        if self.rows % 2 == 0:
            twice[-1] = 1
        return twice[:, None] * np.square(self.amplitudes) / self.rows

    @property
    def peaks(self) -> NDArray[np.int64]:
        """Index of the frequency of the largest amplitude of each column, but 0; int [d_model]."""
        return 1 + self.amplitudes[1:].argmax(axis=0)

    def median_frequency(self) -> float:
        """The frequency up to which half of the power lies, the constant part left out.

        Raises
        ------
        ValueError
            If no column changes along positions.
        """
        power = self.power[1:].sum(axis=1)  # [rows // 2]
        if not power.sum() > 0:
            raise ValueError("no column changes along positions")
        half = np.searchsorted(np.cumsum(power), power.sum() / 2)
        return float(self.frequencies[1 + min(half, len(power) - 1)])


def spectrum(table: ArrayLike) -> Spectrum:
    """Amplitude spectrum of each column along positions: spec_i = |DFT(E e_i)|.

    Parameters
    ----------
    table
        [rows, d_model], rows at least 2.

    Returns
    -------
    Spectrum
        Yamamoto and Matsuzaki (2023), section 3, https://aclanthology.org/2023.emnlp-main.2.
    """
    table = _checked(table)  # [rows, d_model]
    amplitudes = np.abs(np.fft.rfft(table, axis=0))  # [rows // 2 + 1, d_model]
    return Spectrum(np.fft.rfftfreq(len(table)), amplitudes, len(table))


def logarithmic_edges(frequencies: int, bands: int) -> NDArray[np.int64]:
    """Limits of bands of frequencies, about equally wide on a logarithmic axis.

    Parameters
    ----------
    frequencies
        How many there are, 0 included, which is in no band.
    bands
        At most so many; the lowest frequencies have a band each.

    Returns
    -------
    int [found + 1]: band b holds the frequencies with the indices edges[b] to edges[b + 1] - 1.
    """
    limits = np.geomspace(1, frequencies, min(bands, frequencies - 1) + 1)  # [bands + 1]
    return np.unique(np.round(limits).astype(np.int64))


def pca_shares(table: ArrayLike) -> NDArray[np.float64]:
    """Share of the variance of the rows along each principal component, falling.

    Parameters
    ----------
    table
        [rows, d_model].

    Returns
    -------
    float64 [min(rows, d_model)], which sum to 1.

    Raises
    ------
    ValueError
        If all rows are the same.
    """
    table = _checked(table)  # [rows, d_model]
    values = np.linalg.svd(table - table.mean(axis=0), compute_uv=False)  # [min(rows, d_model)]
    if not np.ptp(table, axis=0).any():
        raise ValueError("all rows are the same: they have no variance")
    return np.square(values) / np.square(values).sum()


def _offset_index(rows: int) -> NDArray[np.int64]:
    """Column minus row, from 0: int [rows, rows]."""
    places = np.arange(rows)
    return places[None, :] - places[:, None] + rows - 1


def _checked(table: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(table, np.float64)  # [rows, d_model]
    if table.ndim != 2 or len(table) < 2 or not table.shape[1]:
        raise ValueError(f"shape {table.shape} is not [rows, d_model] with two rows at least")
    if not np.isfinite(table).all():
        raise ValueError("the table must be finite")
    return table
