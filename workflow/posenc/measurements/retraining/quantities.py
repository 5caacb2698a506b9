"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import NOT_EVALUATED, Facts, NotRun, Number, with_spoken
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.retraining.result import Retrained, TokensNeeded, Training

TRAINED_ON, STARTS = ("intact", "zero", "zero_closed"), ("zero_closed",)
"""Conditions that models are trained on under, and those of them that are worth tokens."""
OF_TRAINED = ("first", "last", "first.above_intact", "last.above_intact")
WORTH = ("start", "start_above_intact", "meets")
RETRAINING = (
    "documents", "tokens", "learned_tokens",
    *(f"{condition}.{part}" for condition in TRAINED_ON for part in OF_TRAINED
      if condition != "intact" or "above" not in part),
    *(f"{condition}.{part}{of}" for condition in STARTS for part in WORTH for of in ("", ".least")),
)  # fmt: skip


def retraining(result: Retrained) -> Facts:
    """Losses before and after training, and the training tokens that a start is worth."""
    trainings = {training.condition: training for training in result.conditions}
    last = result.conditions[0].curve[-1].tokens
    facts: Facts = {"documents": Number(result.documents), "tokens": Number(result.tokens)}
    facts["learned_tokens"] = Number(last)
    for condition in with_spoken(TRAINED_ON, trainings):
        facts |= losses(condition, trainings.get(condition))
    starts = (name for name, training in trainings.items() if training.worth)
    for condition in with_spoken(STARTS, starts):
        worth = trainings[condition].worth if condition in trainings else None
        for part in WORTH:
            key = f"{condition}.{part}"
            if worth is None:
                facts |= dict.fromkeys((key, f"{key}.least"), NotRun(NOT_EVALUATED))
            else:
                facts |= tokens_needed(key, getattr(worth, part), last)
    return facts


def losses(condition: str, training: Training | None) -> Facts:
    """The loss before and after training, and how far it is above the intact model's."""
    facts: Facts = {}
    for part, place in (("first", 0), ("last", -1)):
        point = training.curve[place] if training else None
        nll, above = (point.nll, point.above_intact) if point else (None, None)
        key, lacking = f"{condition}.{part}", Printed(absent=NOT_EVALUATED)
        facts[key] = number(nll, lacking)
        if condition != "intact":
            facts[f"{key}.above_intact"] = number(above, lacking)
    return facts


def tokens_needed(key: str, tokens: TokensNeeded, last: int) -> Facts:
    """Training tokens until a loss is reached, of ``last`` in all.

    A number of tokens whose upper bound was not reached has no bounds; ``least`` is the lower one.
    """
    lacking = NotRun(f"not reached in {last:,} training tokens")
    value, low, high = tokens.value, tokens.low, tokens.high
    facts: Facts = {key: lacking, f"{key}.least": lacking}
    if value is not None:
        is_whole = low is not None and high is not None
        facts[key] = Number(value, low, high) if is_whole else Number(value)
    if low is not None:
        facts[f"{key}.least"] = Number(low)
    return facts


WORDS = {
    "documents": "documents",
    "tokens": "tokens that are predicted",
    "learned_tokens": "training tokens",
    "intact": "the intact model, trained on",
    "zero": "without rotation, trained on",
    "zero_closed": "from the closed form, trained on",
    "first": "loss before training (nats per token)",
    "last": "loss after training (nats per token)",
    "above_intact": "above the intact model's",
    "start": "training tokens without it to the loss that it begins with",
    "start_above_intact": "the same, above the intact model's loss after as many",
    "meets": "training tokens until it is no better than without it",
    "least": "lower bound",
}
QUANTITIES = quantities(__package__, "Retrained", {}, retraining, names=RETRAINING, words=WORDS)
FIGURE = Exhibit(
    "F6 a start for training without rotation",
    ("retraining",),
    height=4.6,
    caption="Left: loss by training tokens of a decoder that is trained on without rotation, "
    "from nothing in its place and from a mask, and of the intact one; a row per data set. "
    "Right: what it has above the intact one after as many. Dotted: the loss of the mask "
    "before training, as far as the model without it needs to reach it.",
    alt="Two line charts of loss against training tokens for each data set, a line for each "
    "start and for the intact model: the loss, and what it has above the intact model's.",
)
