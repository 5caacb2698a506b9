"""What it finds out about a model."""

from __future__ import annotations

from posenc.artifacts.results import Interval, Part, Result


class Shares(Part):
    """Shares of pairs whose token, and whose position, is read back."""

    token: Interval
    position: Interval


class JointShares(Shares):
    """The same, and the share of pairs of which both are read back."""

    both: Interval


class Margin(Part):
    """By how much the second-nearest sum is farther than the nearest, over pairs."""

    least: float
    median: float


class Level(Part):
    """What is read back at one level of noise."""

    noise: float
    """Standard deviation, in units of the root mean square of the entries of the sums."""
    joint: JointShares
    """Of the nearest of all sums."""
    alone: Shares
    """Of the nearest row of either table, as if nothing was added to it."""
    mean: Shares
    """The same, as if the mean of the other table was added to it."""
    margin: Margin


class Failures(Part):
    """Pairs that are not read back."""

    failures: int
    upper: float
    """Upper confidence bound of the share of all pairs that fail."""


class Bounds(Part):
    """How many of other random pairs fail at the middle level of noise."""

    noise: float
    """As of a :class:`Level`."""
    pairs: int
    """Pairs that are decoded."""
    before: Failures
    after: Failures


class Table(Part):
    """A table's rank, and how many of its leading directions are compared."""

    rank: int
    directions: int


class Subspaces(Part):
    """Principal angles between the leading directions of both tables, in radians, rising.

    There are as many angles as the smaller number of directions.
    """

    variance: float
    """Share of each table's variance that its directions carry at least."""
    tokens: Table
    positions: Table
    full_span_angle: float | None
    """0 where a table spans all dimensions: any subspace lies within; None where none does."""
    draws: int
    """Pairs of random subspaces."""
    angles: list[float]
    random: list[float]
    """Of random subspaces, the mean over draws."""
    random_sd: list[float]
    """Their standard deviation over draws."""


class PairsReadBack(Result):
    """How often a token and its position are read back from their sum."""

    pairs: int
    """Random pairs that are decoded at each level of noise."""
    pairs_searched: int
    """All pairs of a token and a position."""
    mistaken: int
    """Of these, those that are not read back without noise, before layer normalisation."""
    bounds: Bounds
    confidence: float
    d_model: int
    vocabulary_size: int
    positions: int
    """Rows of the table of positions."""
    eps: float
    """What layer normalisation adds to the variance."""
    before: list[Level]
    """Before layer normalisation, by level of noise."""
    after: list[Level]
    subspaces: Subspaces
