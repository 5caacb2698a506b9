"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class PartialSums(Part):
    """Share of what rotation adds to scores that each partial sum explains, mean over heads."""

    mask: Interval
    """The term of the means alone."""
    mask_key: Interval
    """The same and the term of the key."""
    mask_query: Interval
    """The same and the term of the query."""
    first_order: Interval
    """All three."""


class LayerSums(PartialSums):
    """The same of the heads of one layer."""

    layer: int


class Explained(Part):
    """What partial sums explain with means of one kind, all pairs weighted in one way."""

    means: str
    """``own``; ``no_first``, without a mean of the first key's own; ``neighbours``, of the next
    head; ``other_heads``."""
    weights: str
    """``pairs``, which all count alike, or ``attention``."""
    all: PartialSums
    layers: list[LayerSums]
    """Those that are turned."""


class Head(Part):
    """What partial sums explain of one head with its own means, all pairs alike.

    None where rotation adds nothing.
    """

    layer: int
    head: int
    mask: float | None
    mask_key: float | None
    mask_query: float | None
    first_order: float | None


class RotationByOrder(OfDocuments):
    """How much of what rotation adds to scores is of first order in queries and keys."""

    n_layers: int
    n_heads: int
    explained: list[Explained]
    heads: list[Head]
    """Of the first layer that is turned, then of the next one."""
