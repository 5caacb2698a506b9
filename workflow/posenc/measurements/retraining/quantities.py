"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import NOT_EVALUATED, Entry, Number, Quantities, estimate, with_spoken
from posenc.drawing.exhibit import Exhibit

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


def retraining(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Losses before and after training, and the training tokens that a start is worth.

    A number of tokens whose upper bound was not reached has no bounds; ``least`` is the lower one.
    """
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    last = measurement["conditions"][0]["curve"][-1]["tokens"]
    facts: dict[str, Entry] = {part: Number(measurement[part]) for part in ("documents", "tokens")}
    facts["learned_tokens"] = Number(last)
    for condition in with_spoken(TRAINED_ON, entries):
        curve = entries[condition]["curve"] if condition in entries else [{"nll": None}]
        for part, row in (("first", curve[0]), ("last", curve[-1])):
            facts[f"{condition}.{part}"] = estimate(row["nll"], NOT_EVALUATED)
            if condition != "intact":
                above = estimate(row.get("above_intact"), NOT_EVALUATED)
                facts[f"{condition}.{part}.above_intact"] = above
    worth_tokens = (name for name, entry in entries.items() if entry["worth"])
    for condition in with_spoken(STARTS, worth_tokens):
        lacking = dict.fromkeys(WORTH, dict.fromkeys(("value", "low", "high")))
        worth = entries.get(condition, {"worth": lacking})["worth"]
        reason = f"not reached in {last:,} training tokens"
        reason = reason if condition in entries else NOT_EVALUATED
        for part in WORTH:
            own = worth[part]
            is_whole = None not in (own["low"], own["high"])
            facts[f"{condition}.{part}"] = estimate(own if is_whole else own["value"], reason)
            facts[f"{condition}.{part}.least"] = estimate(own["low"], reason)
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
QUANTITIES = Quantities(read=retraining, names=RETRAINING, words=WORDS)
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
