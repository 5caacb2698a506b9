"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class Head(Part):
    """A head that was chosen for its attention."""

    layer: int
    head: int
    score: float
    """Mean share of its attention, in the sequences that chose it."""


class Heads(Part):
    """The heads with the most attention of each kind, in falling order."""

    previous: list[Head]
    """To the previous token."""
    induction: list[Head]
    """To the token after the earlier occurrence."""


class Uniform(Part):
    """Shares of attention of a head that looks at all keys alike."""

    previous: float
    induction: float


class Copying(Part):
    """What one condition does to the sequences.

    Losses are in nats per token, without the first token of either half.
    """

    condition: str
    spec: Spec
    """The condition, written out."""
    first: Interval
    """Loss of random tokens."""
    again: Interval
    """Loss of the same tokens where they occur again."""
    gain: Interval
    """How much lower it is there."""
    reordered: Interval
    """The same where the tokens occur again in another order."""
    recovered: Interval | None
    """Share of the gain that is lost without positions; None where nothing is gained or lost."""
    previous: Interval | None
    """Share of the chosen heads' attention to the previous token."""
    induction: Interval | None
    """The same to the token after the earlier occurrence."""
    reason: str | None
    """Why attention is None."""


class Repetition(OfDocuments):
    """Copying of repeated random tokens, by condition; ``documents`` are the sequences."""

    period: int
    """Tokens of a sequence before it is repeated."""
    heads: Heads
    uniform: Uniform
    conditions: list[Copying]
