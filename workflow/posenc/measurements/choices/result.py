"""What it finds out about a model on questions."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class Chance(Part):
    """Scores of answers that mean nothing, means over questions."""

    mc1: float
    mc2: float


class Answering(Part):
    """How one condition answers.

    MC1 is the share of questions whose best answer is the likeliest choice, MC2 the share of the
    answers' probability on true ones; ``nll`` is the loss of true answers in nats per token. A
    ``delta`` is the condition minus the intact model. The intervals of those over ``categories``
    resample categories, and questions within them; None where questions have no categories.
    """

    condition: str
    spec: Spec
    """The condition, written out."""
    mc1: Interval
    mc2: Interval
    nll: Interval
    delta_mc1: Interval
    delta_mc2: Interval
    delta_nll: Interval
    delta_mc1_categories: Interval | None
    delta_mc2_categories: Interval | None
    delta_nll_categories: Interval | None
    mc1_other: Interval
    """MC1 of the same answers after another question."""
    mc2_other: Interval
    nll_other: Interval
    mc1_question: Interval
    """MC1 after the own question minus that after another."""
    mc2_question: Interval
    nll_question: Interval
    mc1_chance: Interval
    """MC1 minus chance."""
    mc2_chance: Interval
    recovered: Interval | None
    """Share of the log-probability of true answers, lost without positions, that it recovers; None
    where nothing is lost."""


class Scores(OfDocuments):
    """Scores of right and wrong answers by condition; ``documents`` are the questions."""

    too_long: int
    """Drawn questions that the model cannot read with all their answers: they are left out."""
    answers: int
    """Of all questions."""
    chance: Chance
    conditions: list[Answering]
