"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import NOT_EVALUATED, Facts, NotRun, with_spoken
from posenc.artifacts.printing import By, Fields, Printed, number, quantities

if TYPE_CHECKING:
    from posenc.measurements.joint_order.result import Orders

PAIRED = ("intact", "zero", "zero_closed", "placebo_heads")
"""Conditions whose pairs of words documents report."""
PRINTED: Fields = {
    "documents": Printed("documents"),
    "candidates": Printed("words at either place"),
    "conditions": By("condition", spoken=PAIRED),
    "conditions.mass_first": Printed("probability of those words at the first place"),
    "conditions.mass": Printed("probability of their pairs"),
    "other": Printed("the intact model after another document"),
    "other.mass_first": Printed(),
    "other.mass": Printed(),
}
OF_PAIRS = {
    "repeats": "probability that both are the same word",
    "dependence": "mutual information of the two places (nats)",
    "order": "total variation of pairs from their reverse",
    "places": "the same of the product of the places' marginals",
    "interaction": "the same of the rest",
    "divergence": "Jensen-Shannon divergence of pairs from their reverse (nats)",
    "log_ratio": "mean absolute log ratio of both orders (nats)",
    "additive": "share of its square that scores of single words explain",
    "agreement": "share of the intact model's pairs with the same preferred order",
    "correlation": "correlation of log ratios with the intact model's",
    "interaction_correlation": "the same without what marginals explain",
    "words_lost": "divergence from the intact model in which two words (nats)",
    "order_lost": "divergence from the intact model in their order (nats)",
    "recovered": "recovered share of the order that is lost",
}
"""What documents print of pairs, and its words."""
OTHER = "other"
PLACES = {"": 1, "far.": 2}
"""What comes before the name of a number, by the distance of pairs."""
LOST = Printed(absent="nothing of the order is lost")


def parts_of(condition: str) -> list[str]:
    """What is printed of the pairs of a condition: there is nothing that the control recovers."""
    return [part for part in OF_PAIRS if condition != OTHER or part != "recovered"]


def of_pairs(result: Orders) -> Facts:
    """Order of pairs of neighbours and of pairs with a token between them, by condition."""
    by_condition = {entry.condition: entry.distances for entry in result.conditions}
    by_condition[OTHER] = result.other.distances
    facts: Facts = {}
    for condition in with_spoken(PAIRED, by_condition):
        by_distance = {pairs.distance: pairs for pairs in by_condition.get(condition, ())}
        for where, distance in PLACES.items():
            for part in parts_of(condition):
                facts[f"{condition}.{where}{part}"] = (
                    number(getattr(by_distance[distance], part), LOST)
                    if by_distance
                    else NotRun(NOT_EVALUATED)
                )
    return facts


NAMES = tuple(
    f"{condition}.{where}{part}"
    for condition in (*PAIRED, OTHER)
    for where in PLACES
    for part in parts_of(condition)
)
WORDS = {"far": "with a token between", **OF_PAIRS}
QUANTITIES = quantities(__package__, "Orders", PRINTED, of_pairs, NAMES, WORDS)
