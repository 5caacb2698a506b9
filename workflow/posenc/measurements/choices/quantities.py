"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import NOT_EVALUATED, Entry, Number, Quantities, estimate, with_spoken

ANSWERING = (
    "intact", "zero", "zero_closed", "placebo_heads", "zero_fitted", "intact_fitted", "fitted",
    "zero_scores_fitted", "intact_fitted_short", "first_order_mask", "first_order",
    "first_order_heads", "first_order_neighbours",
)  # fmt: skip
"""Conditions whose answers to questions documents report."""
OVER_CATEGORIES = tuple(f"delta_{score}_categories" for score in ("mc1", "mc2", "nll"))
ANSWERS = (
    *(f"{score}{of}" for score in ("mc1", "mc2", "nll") for of in ("", "_other", "_question")),
    "mc1_chance", "mc2_chance", "delta_mc1", "delta_mc2", "delta_nll", "recovered",
    *OVER_CATEGORIES,
)  # fmt: skip
CHOICES = (
    "chance.mc1",
    "chance.mc2",
    "questions",
    *(f"{condition}.{part}" for condition in ANSWERING for part in ANSWERS),
)


def choices(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Scores of questions and losses of their true answers, by condition."""
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    numbers: dict[str, Entry] = {"questions": Number(measurement["documents"])}
    numbers |= {f"chance.{part}": Number(level) for part, level in measurement["chance"].items()}
    for condition in with_spoken(ANSWERING, entries):
        entry = entries.get(condition, dict.fromkeys(ANSWERS))
        reason = NOT_EVALUATED
        if condition in entries:
            reason = "nothing is lost without positions"
        for part in ANSWERS:
            lacking = reason
            if condition in entries and part in OVER_CATEGORIES:
                lacking = "questions have no categories"
            numbers[f"{condition}.{part}"] = estimate(entry.get(part), lacking)
    return numbers


WORDS = {
    "questions": "questions",
    "mc1": "questions whose best answer is the likeliest choice (MC1)",
    "mc2": "share of the answers' probability on true ones (MC2)",
    "nll": "loss of true answers (nats per token)",
    "mc1_other": "MC1 after another question",
    "mc2_other": "MC2 after another question",
    "nll_other": "loss of true answers after another question (nats per token)",
    "mc1_question": "MC1, own minus another question",
    "mc2_question": "MC2, own minus another question",
    "nll_question": "loss of true answers, own minus another question (nats per token)",
    "mc1_chance": "MC1 above chance",
    "mc2_chance": "MC2 above chance",
    "delta_mc1": "MC1, minus the intact model's",
    "delta_mc2": "MC2, minus the intact model's",
    "delta_nll": "loss of true answers, minus the intact model's (nats per token)",
    "delta_mc1_categories": "MC1, minus the intact model's, over categories too",
    "delta_mc2_categories": "MC2, minus the intact model's, over categories too",
    "delta_nll_categories": "loss of true answers, minus the intact, over categories too",
    "recovered": "recovered share of the lost log-probability of true answers",
}
QUANTITIES = Quantities(read=choices, names=CHOICES, words=WORDS)
