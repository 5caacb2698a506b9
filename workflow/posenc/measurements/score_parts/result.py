"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class Learning(Part):
    """How well the closed form predicts with means of so many documents."""

    documents: int
    tokens: int
    median: Interval | None
    """Median R² over heads; None where position adds nothing to the scores."""


class Prediction(Part):
    """How well the mask in closed form predicts what position adds to scores, by distance.

    R² of the measured curve of each head; intervals are over heads. None where position adds
    nothing to the scores.
    """

    median: Interval | None
    shuffled: Interval | None
    """Median with curves shuffled over heads; None where there is one head only."""
    first_key: Interval | None
    """Median for scores with the first key."""
    high: float
    """R² from which a mask counts as explaining a head."""
    high_share: Interval
    """Share of heads with an R² at least as high."""
    layers: list[Interval | None]
    """Median of each layer, [n_layers]."""
    learning: list[Learning]
    """By growing number of documents; the last entry is of all."""


class Terms(Part):
    """Shares of the variance of scores, which sum to 1: means over heads."""

    content: Interval
    mask: Interval
    interaction: Interval
    content_mask: Interval
    """Twice the covariance of the two parts; so are the next ones."""
    content_interaction: Interval
    mask_interaction: Interval


class LayerTerms(Terms):
    """The same of the heads of one layer."""

    layer: int


class Shares(Part):
    """Parts of the scores with one kind of weights; intervals are over documents."""

    weights: str
    """``pairs``, which all count alike, or ``attention``."""
    within_query: bool
    """Whether the mean over the keys of each query is taken out first."""
    correlation: Interval
    """Of the scores with content + mask, median over heads."""
    content_correlation: Interval
    """Of the scores with the content alone."""
    placebo: dict[str, Interval]
    """Of the scores with content + mask of another head, of all (``heads``) or of the same layer
    (``layers``)."""
    all: Terms
    layers: list[LayerTerms]


class HeadTerms(Part):
    """Shares of the variance of one head's scores, as ``Terms``; None where they are equal."""

    content: float | None
    mask: float | None
    interaction: float | None
    content_mask: float | None
    content_interaction: float | None
    mask_interaction: float | None


class Curves(Part):
    """What position adds to the scores of a head, nats; None where there is no pair."""

    past: list[float | None]
    """By distance of a key before the query, without the first key, [tokens]."""
    future: list[float | None] | None = None
    """By distance of a key after the query, [tokens]; missing of a causal model."""
    first_key: list[float | None]
    """By position of the query, [tokens]."""


class Head(Part):
    """One head, all pairs alike."""

    layer: int
    head: int
    r2: float | None
    """None where position adds nothing to the scores."""
    correlation: float | None
    """Of the scores with content + mask."""
    shares: HeadTerms
    measured: Curves
    closed_form: Curves


class Decomposition(OfDocuments):
    """Scores as content, mask in closed form, and interaction."""

    is_causal: bool
    is_rotary: bool
    n_layers: int
    n_heads: int
    r2: Prediction
    shares: list[Shares]
    heads: list[Head]
    """Of the first layer, then of the next one."""
