"""A table of position embeddings as a matrix and as signals: products, spectra, components.

The table is E, [rows, d_model]: row p is the vector of position p. Its columns are signals along
the sequence, with frequencies in cycles per token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.spectra import amplitude_spectrum, frequencies, sides


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
    return float(np.abs(_from_diagonals(matrix)).max())


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
    deviations = _from_diagonals(matrix)  # [rows, rows]
    matrix = np.asarray(matrix, np.float64)  # [rows, rows]
    if len(matrix) < 3:
        raise ValueError(f"{len(matrix)} rows are too few for entries of one offset to differ")
    off = ~np.eye(len(matrix), dtype=bool)  # [rows, rows]
    total = np.square(matrix[off] - matrix[off].mean()).sum()
    if total <= (1e-12 * np.abs(matrix).max()) ** 2 * off.sum():
        raise ValueError("the matrix is constant off its diagonal: no variance to explain")
    return float(1 - np.square(deviations[off]).sum() / total)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Amplitudes of the columns of a table along positions.

    Parameters
    ----------
    frequencies
        float64 [rows // 2 + 1]: cycles per token, 0 to 0.5.
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

        Over the frequencies it sums to Σ_p E[p, i]² (Parseval).
        """
        return sides(self.rows)[:, None] * np.square(self.amplitudes) / self.rows

    @property
    def peaks(self) -> NDArray[np.int64]:
        """Index of the frequency of the largest amplitude of each column, but 0; int [d_model]."""
        return 1 + self.amplitudes[1:].argmax(axis=0)

    def by_band(self, bands: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Edges of :func:`logarithmic_edges`, and root mean square amplitudes between them.

        Those are float64 [bands, d_model], relative to each column's largest, and 0 in a column
        that is constant.
        """
        edges = logarithmic_edges(len(self.frequencies), bands)  # [bands + 1]
        power = np.add.reduceat(self.power, edges[:-1], axis=0)  # [bands, d_model]
        amplitude = np.sqrt(power / np.diff(edges)[:, None])  # [bands, d_model]
        largest = amplitude.max(axis=0)  # [d_model]
        return edges, amplitude / np.where(largest > 0, largest, 1)

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
    amplitudes = amplitude_spectrum(table, axis=0).astype(np.float64)  # [frequencies, d_model]
    return Spectrum(frequencies(len(table)), amplitudes, len(table))


def logarithmic_edges(count: int, bands: int) -> NDArray[np.int64]:
    """Limits of bands of frequencies, about equally wide on a logarithmic axis.

    Parameters
    ----------
    count
        How many frequencies there are, 0 included, which is in no band.
    bands
        At most so many; the lowest frequencies have a band each.

    Returns
    -------
    int [found + 1]: band b holds the frequencies with the indices edges[b] to edges[b + 1] - 1.
    """
    limits = np.geomspace(1, count, min(bands, count - 1) + 1)  # [bands + 1]
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


def _from_diagonals(matrix: ArrayLike) -> NDArray[np.float64]:
    """Each entry less the mean of its diagonal, [rows, rows]."""
    matrix = np.asarray(matrix, np.float64)  # [rows, rows]
    means = offset_means(matrix)  # [2 rows - 1]
    places = np.arange(len(matrix))  # [rows]
    return matrix - means[places[None, :] - places[:, None] + len(matrix) - 1]


def _checked(table: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(table, np.float64)  # [rows, d_model]
    if table.ndim != 2 or len(table) < 2 or not table.shape[1]:
        raise ValueError(f"shape {table.shape} is not [rows, d_model] with two rows at least")
    if not np.isfinite(table).all():
        raise ValueError("the table must be finite")
    return table
