"""What it finds out about a model on a data set."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class Point(Part):
    """A point of a curve: the loss after some steps of training, over all seeds."""

    step: int
    tokens: int
    """Training tokens up to there."""
    nll: Interval
    """Loss in nats per token."""
    above_intact: Interval | None
    """Loss minus the intact model's after as many tokens; None for that model itself."""
    seeds: list[float]
    """[seeds]: loss of each."""


class TokensNeeded(Part):
    """Training tokens until a loss is reached; None where it was not."""

    value: float | None
    """Of the mean curve over seeds."""
    low: float | None
    high: float | None
    seeds: list[float | None]
    """[seeds]: of each."""


class Worth(Part):
    """How many training tokens the model without rotation needs, in three senses."""

    start: TokensNeeded
    """To reach the loss that the other has before it is trained."""
    start_above_intact: TokensNeeded
    """The same with the intact model's loss at the same step taken away on both sides."""
    meets: TokensNeeded
    """To be as good as the other after as many tokens."""


class Training(Part):
    """A model that is trained on under one condition."""

    condition: str
    spec: Spec
    """The condition, written out."""
    curve: list[Point]
    worth: Worth | None
    """None for the intact model, and for the one without rotation."""


class LearnedFrom(Part):
    """The text of all trainings."""

    dataset: str
    documents: int
    sequences: int
    """That documents are cut into."""
    tokens_per_step: int


class Retrained(OfDocuments):
    """Loss by training tokens of a decoder that is trained on, and what each start is worth.

    Tokens are those that are predicted.
    """

    conditions: list[Training]
    scored: list[int]
    """[documents]: tokens that are predicted."""
    sums: dict[str, list[list[list[float]]]]
    """By condition, [seeds, evaluations, documents]: sums of losses in nats, from which other
    intervals follow."""
    device: str
    """``cpu`` or ``cuda``."""
    learned_from: LearnedFrom
