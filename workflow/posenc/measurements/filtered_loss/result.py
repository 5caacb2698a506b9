"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class Difference(Part):
    """One run of the model less another, on the same documents."""

    delta_nll: Interval | None
    """In nats per token; None of an encoder."""
    distance: Interval
    """Of 1 minus the cosine of a token's last hidden state with the intact model's."""


class Costs(Part):
    """What a filter costs, and its controls, less the intact model; and beyond each control."""

    cost: Difference
    random: Difference
    """As many directions of the same prefix, drawn at random."""
    beyond_random: Difference
    scaled: Difference
    """As much of the length of queries and keys, which keep their directions."""
    beyond_scaled: Difference


class Layer(Costs):
    """Costs of a filter in one layer alone."""

    layer: int


class Filter(Costs):
    """Costs of a filter in all layers, and in each."""

    band: int | str
    """Its number, from the lowest, or ``mean``: the constant alone."""
    way: str
    """``kept``: all that is left; ``left_out``: all that is not."""
    share: float
    """Of the cosines of what a query sees, those that are left: a mean over queries."""
    layers: list[Layer]


class FilteredLoss(OfDocuments):
    """What is lost when queries and keys keep one band of frequencies, or lose it."""

    is_causal: bool
    n_layers: int
    bands: list[float]
    """Limits of the bands [bands + 1], in cycles per token."""
    nll: Interval | None
    """Of the intact model, in nats per token; None of an encoder."""
    filters: list[Filter]
