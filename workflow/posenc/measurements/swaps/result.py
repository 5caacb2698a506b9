"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class Distance(Part):
    """Swaps of two words that are so far apart, under one condition."""

    distance: int
    """In words: 1 for neighbours."""
    preference: Interval
    """Share of swaps whose text has the lower loss; a tie counts half."""
    margin: Interval
    """Loss of a swapped text beyond its own, in nats per swap."""
    recovered: Interval | None
    """Share of the margin that is lost without positions; None where nothing is there to lose."""
    later: Interval
    """The margin of the tokens after the swap that have the same token before them."""
    later_recovered: Interval | None
    """As ``recovered``, of the margin of those tokens."""


class Preference(Part):
    """What one condition makes of the swaps."""

    condition: str
    spec: Spec
    """The condition, written out."""
    distances: list[Distance]


class Preferences(OfDocuments):
    """Preference for a text over itself with two words swapped, by condition."""

    swaps: int
    """Swaps at each distance, of all documents."""
    conditions: list[Preference]
