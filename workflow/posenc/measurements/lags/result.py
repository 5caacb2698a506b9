"""What it finds out about all models: offsets that weights predict, and those of attention on text.

An offset is the position of the key minus that of the query, in tokens. Values of a head are those
that ``Point`` names; each comparison correlates one that is predicted with one that is found.
"""

from __future__ import annotations

from typing import Literal

from posenc.artifacts.precision import PrecisionFields
from posenc.artifacts.results import Interval, Part, Result


class Agreement(Part):
    """Heads whose predicted and found offset are the same."""

    share: Interval
    """Intervals are over heads, drawn within their model."""
    chance: Interval
    """The same with permuted heads."""
    p: float
    """Share of permutations that agree as much or more."""


class OverLayers(Part):
    """Rank correlation with layers as the units of chance; None where it is not defined."""

    spearman: Interval | None
    p: float | None
    """Share of permutations within layers whose correlation is as far from 0 or further."""
    undefined: float
    """Share of resamples without a correlation, which are left out."""


class LayerCorrelation(Part):
    """Rank correlation among the heads of one layer; None where it is not defined."""

    layer: int
    spearman: float | None


class OfHeads(Part):
    """A predicted and a found value of each head, with heads as the units of chance."""

    predicted: str
    """Which value of a head."""
    found: str
    heads: int
    """Those that have both values."""
    spearman: Interval | None
    pearson: Interval | None
    reason: str | None
    """Why there are no correlations."""
    undefined: float
    """Share of resamples without a correlation, which are left out."""
    agreement: Agreement | None = None
    """Of peaks; means are never the same."""


class Correlation(OfHeads):
    """The same, and with layers as the units of chance."""

    over_layers: OverLayers
    by_layer: list[LayerCorrelation]


class HeldOut(Part):
    """The comparison that is best in the even layers, in both halves of the layers."""

    chosen: str | None
    """None where no correlation is defined in the even layers."""
    even: Interval | None
    """Rank correlation with layers as the units of chance."""
    odd: Interval | None


class Point(Part):
    """What is predicted and found of one head."""

    model: str
    layer: int
    head: int
    score_peak: int
    """Predicted offset of the highest score."""
    profile_peak: int
    """Predicted offset where attention is furthest above a uniform pattern."""
    profile_mean: float | None
    """Predicted mean offset of attention within the window."""
    peak: int
    """Offset on text where attention is furthest above a uniform pattern."""
    mean: float | None
    """Mean offset of attention on text within the window."""
    stability: float
    """Share of resamples with the same ``peak``."""


class Compared(Part):
    """Whose heads are compared, and on which text."""

    models: list[str]
    dataset: str
    condition: str


class Comparison(Part):
    """All comparisons of the heads of one model, or of several together."""

    run: Compared
    heads: int
    results: dict[str, Correlation]
    """By comparison."""
    first_layer: dict[str, OfHeads]
    """The same of the first layer, whose input is the one that weights are given."""
    held_out: HeldOut
    points: list[Point]
    """[heads]"""


class Lags(Result):
    """Comparisons of each model on each data set, and of all models together."""

    confidence: float
    comparisons: list[Comparison]
    conditions: list[dict[str, str | PrecisionFields]] | None = None
    """Runs that were computed in another precision, and which."""


class NoLags(Result):
    """Why nothing is compared."""

    status: Literal["not run"]
    reason: str
    confidence: float
    comparisons: list[Comparison]
    """None."""
    conditions: list[dict[str, str | PrecisionFields]] | None = None
    """As of :class:`Lags`."""
