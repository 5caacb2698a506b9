"""What it finds out about a table of position embeddings, of a model or of none.

Shares are of the variance. A spread is over draws of the same rows in random order.
"""

from __future__ import annotations

from typing import Literal

from posenc.artifacts.results import Part, Result, Spread


class Shape(Part):
    """The table."""

    rows: int
    """Positions that are measured, from the first."""
    available: int
    """Positions that the table has."""
    d_model: int
    deviation: float
    """Standard deviation of its entries."""


class OverRepeats(Part):
    """Mean and standard deviation over repeated cross-validations."""

    mean: float
    sd: float


class Errors(Part):
    """Errors of regressions on rows, at positions that they were not fitted to."""

    absolute: OverRepeats
    """Of the position, in positions."""
    relative: OverRepeats
    """Pairs that are put in the wrong order, %."""
    relative_unit_deviation: OverRepeats
    """The same where the table is divided by its standard deviation, %."""


class Regression(Errors):
    """Errors of the table and of its control."""

    units: dict[str, str]
    """By error."""
    repeats: int
    pairs: int
    """Ordered pairs that the order is learned from and judged on."""
    control: Errors
    """Of random tables of the same shape and deviation."""


class ToeplitzShare(Part):
    """Share of products of rows that the offset explains; None where rows are orthogonal."""

    gram: float | None
    """Of inner products."""
    cosine: float | None


class PrincipalComponents(Part):
    """Shares of principal components, leading first."""

    shares: list[float]
    """[components]"""
    first_4: float
    first_12: float


class Spectrum(Part):
    """Amplitudes of the columns."""

    unit: str
    """Of the frequencies."""
    frequencies: list[float]
    """[frequencies]"""
    mean_amplitude: list[float]
    """Over columns, [frequencies]."""


class Geometry(Part):
    """What the rows of a table are to each other."""

    toeplitz_share: ToeplitzShare
    pca: PrincipalComponents
    median_frequency: float
    """Frequency below which half of the columns' power lies, cycles per token."""
    spectrum: Spectrum | None
    """None of a control."""


class Waves(Part):
    """Components of the rows, and slow waves of position."""

    status: Literal["measured"]
    reason: None
    correlation: float
    """First canonical correlation of principal components with waves, at other positions than those
    that it was fitted to."""
    correlation_shuffled: Spread | None
    principal: list[float]
    """Share of each principal component that waves explain, [components]."""
    independent: list[float]
    """The same of independent components, falling, mean over starts of their search."""
    independent_largest: Spread | None
    """The largest of these, over starts."""
    explained_shuffled: Spread | None
    """The largest share of a principal component."""
    converged: bool
    """Whether every search for independent components ended by itself."""


class NoWaves(Part):
    """Why a table has no components: it is too small."""

    status: Literal["not run"]
    reason: str


class LastRows(Part):
    """The end of the table: how far training reached."""

    norm: float
    """Of the last row, as a multiple of the rows' median."""
    cosine: float
    """Of the last row with the one before."""
    neighbours: float
    """Median cosine of a row with the one before."""
    chance: float
    """What the cosine of independent directions stays below, as modulus, in 95 % of the cases."""
    untouched: int
    """Rows at the end that are no nearer to the row before than that."""


class Wavelengths(Part):
    """Of sinusoids."""

    unit: str
    shortest: float
    longest: float


class Identities(Part):
    """How far sinusoids are from what they should be: largest differences, errors of rounding."""

    shifts: list[int]
    """Offsets by which rows are moved along."""
    shift_residual: float
    """Of rows that are moved along by the matrix of an offset."""
    squared_norm_residual: float
    """Of squared norms from d_model / 2."""
    gram_toeplitz_residual: float
    """Of inner products from their means by offset."""
    wavelengths: Wavelengths


class TableMap(Part):
    """Entries of the table."""

    unit: str
    values: list[list[float]]
    """[rows shown, columns shown]"""


class SpectraMap(Part):
    """Spectra of columns, by band."""

    edges: list[float]
    """Of bands, cycles per token, [bands + 1]."""
    amplitude: list[list[float]]
    """[bands, columns shown], over the largest of the column; columns by frequency."""
    of: str
    """Which amplitude, in words."""


class Maps(Part):
    """What figures show: every so many rows and columns."""

    row_stride: int
    column_stride: int
    table: TableMap
    cosine: list[list[float]]
    """Of rows, [rows shown, rows shown]."""
    spectra: SpectraMap


class PositionTable(Geometry, Result):
    """A table's geometry, and what is read off it."""

    shape: Shape
    regression: Regression
    geometry_control: Geometry
    """Of a random table of the same shape and deviation."""
    components: Waves | NoWaves
    last_rows: LastRows
    """Of all rows, not only those that are measured."""
    identities: Identities | None
    """None of a table that is not of sinusoids."""
    maps: Maps
