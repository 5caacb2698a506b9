"""What it finds out about a model on a text."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from posenc.artifacts.results import Interval, OfDocuments, Part


class Keys(Part):
    """How many keys patterns read, over queries, and over heads where there are several."""

    keys: Interval
    """exp of the mean entropy: effective keys, a geometric mean."""
    others: Interval
    """The same of what the keys after the first get, as shares of their sum."""
    first: Interval
    """Mean weight of the first key."""
    largest: Interval
    """Mean of the largest weight."""


class Layer(Keys):
    """Patterns of one layer."""

    layer: int
    heads: list[Keys]
    """[n_heads]"""


class Length(Keys):
    """Queries that see so many keys, or up to twice as many."""

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    least: int = Field(validation_alias="from", serialization_alias="from")
    """Keys that a query sees at least."""
    documents: int
    """That reach it."""
    seen: float
    """Keys that a query sees, geometric mean."""


class Reading(Part):
    """A run in which each query of each head reads a few keys.

    Losses are in nats per token; None of an encoder.
    """

    choice: str
    """Which keys; ``every`` is the intact model."""
    keys: int | None
    """How many; None of all."""
    nll: Interval | None
    delta_nll: Interval | None
    """The loss less the intact model's."""
    cosine: Interval
    """Of last hidden states with the intact model's."""


class EffectiveKeys(Keys, OfDocuments):
    """How many keys attention reads, and what reading only a few costs; ``tokens`` are queries."""

    is_causal: bool
    n_layers: int
    n_heads: int
    seen: float
    """Keys that a query sees, geometric mean."""
    layers: list[Layer]
    lengths: list[Length]
    """One for each power of two that half of the documents reach, of those that do."""
    growth: Interval | None
    """Slope of the log of the keys that are read on that of the keys that are seen, over
    ``lengths``: 0 where the number is always the same; None where there are fewer than two."""
    reading: list[Reading]
