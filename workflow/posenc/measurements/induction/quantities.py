"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import NOT_EVALUATED, Entry, Quantities, estimate, with_spoken
from posenc.drawing.exhibit import PAPER, Exhibit

UNDER = (
    "intact", "zero", "zero_alibi", "zero_slope", "zero_closed", "placebo_heads", "placebo_layers",
    "placebo_mean", "zero_scores", "zero_scores_fitted", "first_order_mask", "first_order",
    "first_order_heads", "first_order_neighbours",
)  # fmt: skip
"""Conditions whose copying documents report."""
COPYING = ("first", "again", "gain", "reordered", "recovered", "previous", "induction")
INDUCTION = tuple(f"{condition}.{part}" for condition in UNDER for part in COPYING)


def induction(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Losses, gain and attention on repeated tokens, by condition."""
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    numbers: dict[str, Entry] = {}
    for condition in with_spoken(UNDER, entries):
        entry = entries.get(condition, dict.fromkeys((*COPYING, "reason")))
        reason = entry["reason"] or NOT_EVALUATED
        if condition in entries:
            reason = entry["reason"] or "the intact model copies nothing that it loses"
        numbers |= {f"{condition}.{part}": estimate(entry[part], reason) for part in COPYING}
    return numbers


WORDS = {
    "first": "loss of random tokens (nats per token)",
    "again": "loss of the same tokens where they occur again (nats per token)",
    "gain": "gain where a token occurs again (nats per token)",
    "reordered": "the same gain where the tokens occur again in another order",
    "recovered": "recovered share of the lost gain",
    "previous": "attention of chosen heads to the previous token",
    "induction": "attention of chosen heads to the token after the earlier occurrence",
}
QUANTITIES = Quantities(read=induction, names=INDUCTION, words=WORDS)
FIGURE = Exhibit(
    "F masks in place of rotation",
    ("induction",),
    (PAPER,),
    height=3.6,
    caption="Random tokens that are repeated once, under each condition, for the model that "
    "copies most: how much lower its loss is where a token occurs again, and the attention of "
    "the heads that look most at the previous token, and at the token after the earlier "
    "occurrence. Heads are those of the intact model, chosen on other sequences. Intervals are "
    "over sequences.",
    alt="Points with intervals, a row for each condition: loss gained by repetition, "
    "attention to the previous token, attention to the token after the earlier occurrence.",
)
