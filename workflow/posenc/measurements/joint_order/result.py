"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class Pairs(Part):
    """Order of pairs of tokens that are so far apart: means over contexts.

    ``order`` and its parts are total variations from 0, no order, to 1. What compares with the
    intact model does so table by table (:mod:`posenc.metrics.joint_order`).
    """

    distance: int
    """From one place to the other, in tokens."""
    repeats: Interval
    """Probability that both tokens are the same."""
    dependence: Interval
    """Mutual information of the two places, in nats."""
    order: Interval
    """Of pairs from their reverse."""
    places: Interval
    """Of the product of the places' marginals from its reverse."""
    interaction: Interval
    """Of what is left without that product."""
    divergence: Interval
    """Jensen-Shannon divergence of pairs from their reverse, in nats."""
    log_ratio: Interval
    """Mean absolute log ratio of both orders, in nats."""
    additive: Interval
    """Share of its mean square that scores of single tokens explain."""
    agreement: Interval
    """Share of pairs whose preferred order is the intact model's."""
    correlation: Interval
    """Of log ratios with the intact model's."""
    interaction_correlation: Interval
    """The same without what marginals explain."""
    words_lost: Interval
    """Divergence from the intact model in which two tokens they are, in nats."""
    order_lost: Interval
    """Divergence from the intact model in their order, in nats."""
    recovered: Interval | None = None
    """Share of the order, lost without positions, that a condition recovers; None where nothing is
    lost. The control has none."""


class Distribution(Part):
    """Joint distribution of the tokens at two places, means over contexts."""

    mass_first: Interval
    """Probability of the candidates at the first place."""
    mass: Interval
    """Probability of their pairs at neighbouring places."""
    distances: list[Pairs]


class UnderCondition(Distribution):
    """The same under one condition."""

    condition: str
    spec: Spec
    """The condition, written out."""


class Orders(OfDocuments):
    """Order of pairs by condition; ``documents`` are the contexts, one of each document."""

    candidates: int
    """Tokens that are tried at either place."""
    conditions: list[UnderCondition]
    other: Distribution
    """The intact model after the beginning of another document, with the same pairs."""
