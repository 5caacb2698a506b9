"""What it finds out about a model."""

from __future__ import annotations

from posenc.artifacts.results import Interval, Part, Result


class Recall(Part):
    """Shares of pairs whose rows have the two highest products with their mixture, of all rows."""

    both: Interval
    first: Interval
    """Pairs whose first row is one of the two, whatever the other is."""
    second: Interval


class Mixture(Part):
    """Mixtures w a + (1 - w) b of the pairs of rows a and b."""

    weight: float
    """w."""
    cosine: Recall
    """Where products are divided by the norm of each row."""
    inner_product: Recall


class Width(Part):
    """Recall where rows have so many dimensions."""

    dimensions: int
    weights: list[Mixture]


class ExpectedMixture(Part):
    """What a table of independent normal entries is expected to give."""

    weight: float
    both: float
    """Probability that both rows are found by cosine."""


class ExpectedWidth(Part):
    """The same where rows have so many dimensions."""

    dimensions: int
    weights: list[ExpectedMixture]


class Needed(Part):
    """From how many dimensions on both rows are found in a large random table."""

    weight: float
    dimensions: float | None
    """None where one of the two has no weight."""


class Recalls(Result):
    """Which two rows of a model's token embedding a mixture consists of."""

    pairs: int
    rows: int
    """Of the table, without those of zeros."""
    zero_rows: int
    d_model: int
    confidence: float
    chance: float
    """Share of pairs that guessing finds."""
    model: list[Width]
    """Random projections of the table, then the table itself."""
    centred: list[Width]
    """The table without the mean of its rows, at its own width alone."""
    gaussian: list[Width]
    """A table of independent normal entries, as large."""
    expected: list[ExpectedWidth]
    needed_dimensions: list[Needed]
