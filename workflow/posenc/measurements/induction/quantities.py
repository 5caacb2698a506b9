"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from posenc.artifacts.printing import By, Fields, Printed, quantities
from posenc.drawing.exhibit import PAPER, Exhibit

UNDER = (
    "intact", "zero", "zero_alibi", "zero_slope", "zero_closed", "placebo_heads", "placebo_layers",
    "placebo_mean", "zero_scores", "zero_scores_fitted", "first_order_mask", "first_order",
    "first_order_heads", "first_order_neighbours",
)  # fmt: skip
"""Conditions whose copying documents report."""
NO_GAIN = "the intact model copies nothing that it loses"
PRINTED: Fields = {
    "conditions": By("condition", spoken=UNDER),
    "conditions.first": Printed("loss of random tokens (nats per token)"),
    "conditions.again": Printed("loss of the same tokens where they occur again (nats per token)"),
    "conditions.gain": Printed("gain where a token occurs again (nats per token)"),
    "conditions.reordered": Printed("the same gain where the tokens occur again in another order"),
    "conditions.recovered": Printed("recovered share of the lost gain", NO_GAIN),
    "conditions.previous": Printed("attention of chosen heads to the previous token", NO_GAIN),
    "conditions.induction": Printed(
        "attention of chosen heads to the token after the earlier occurrence", NO_GAIN
    ),
}
QUANTITIES = quantities(__package__, "Repetition", PRINTED)
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
