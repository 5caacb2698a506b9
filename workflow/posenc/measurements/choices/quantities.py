"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from posenc.artifacts.printing import By, Fields, Printed, quantities

ANSWERING = (
    "intact", "zero", "zero_closed", "placebo_heads", "zero_fitted", "intact_fitted", "fitted",
    "zero_scores_fitted", "intact_fitted_short", "first_order_mask", "first_order",
    "first_order_heads", "first_order_neighbours",
)  # fmt: skip
"""Conditions whose answers to questions documents report."""
NO_CATEGORIES = "questions have no categories"
PRINTED: Fields = {
    "documents": Printed("questions", name="questions"),
    "chance.mc1": Printed(),
    "chance.mc2": Printed(),
    "conditions": By("condition", spoken=ANSWERING),
    "conditions.mc1": Printed("questions whose best answer is the likeliest choice (MC1)"),
    "conditions.mc2": Printed("share of the answers' probability on true ones (MC2)"),
    "conditions.nll": Printed("loss of true answers (nats per token)"),
    "conditions.mc1_other": Printed("MC1 after another question"),
    "conditions.mc2_other": Printed("MC2 after another question"),
    "conditions.nll_other": Printed("loss of true answers after another question (nats per token)"),
    "conditions.mc1_question": Printed("MC1, own minus another question"),
    "conditions.mc2_question": Printed("MC2, own minus another question"),
    "conditions.nll_question": Printed(
        "loss of true answers, own minus another question (nats per token)"
    ),
    "conditions.mc1_chance": Printed("MC1 above chance"),
    "conditions.mc2_chance": Printed("MC2 above chance"),
    "conditions.delta_mc1": Printed("MC1, minus the intact model's"),
    "conditions.delta_mc2": Printed("MC2, minus the intact model's"),
    "conditions.delta_nll": Printed(
        "loss of true answers, minus the intact model's (nats per token)"
    ),
    "conditions.delta_mc1_categories": Printed(
        "MC1, minus the intact model's, over categories too", NO_CATEGORIES
    ),
    "conditions.delta_mc2_categories": Printed(
        "MC2, minus the intact model's, over categories too", NO_CATEGORIES
    ),
    "conditions.delta_nll_categories": Printed(
        "loss of true answers, minus the intact, over categories too", NO_CATEGORIES
    ),
    "conditions.recovered": Printed(
        "recovered share of the lost log-probability of true answers",
        "nothing is lost without positions",
    ),
}
QUANTITIES = quantities(__package__, "Scores", PRINTED)
