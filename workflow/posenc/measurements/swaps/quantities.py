"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import NOT_EVALUATED, Facts, NotRun, with_spoken
from posenc.artifacts.printing import Printed, number, quantities
from posenc.measurements.induction.quantities import UNDER

if TYPE_CHECKING:
    from posenc.measurements.swaps.result import Preferences

SPOKEN = (*UNDER, "single_token")
"""Conditions whose swaps documents report."""
WORDS = {
    "preference": "share of swaps whose text is preferred to its swapped form",
    "margin": "loss of a swapped text beyond its own (nats per swap)",
    "recovered": "recovered share of the lost margin",
    "later": "the same, of tokens that follow the swap with the same token before them",
    "later_recovered": "recovered share of the lost margin, of those tokens",
}
NAMES = tuple(
    f"{condition}.{where}{part}" for condition in SPOKEN for where in ("", "far.") for part in WORDS
)
MARGIN = Printed(absent="the intact model has no margin that it loses")


def near_and_far(result: Preferences) -> Facts:
    """Preference for a text over its swapped form, of the nearest words and of the furthest."""
    by_condition = {
        entry.condition: sorted(entry.distances, key=lambda swaps: swaps.distance)
        for entry in result.conditions
    }
    facts: Facts = {}
    for condition in with_spoken(SPOKEN, by_condition):
        distances = by_condition.get(condition)
        for where, place in (("", 0), ("far.", -1)):
            for part in WORDS:
                facts[f"{condition}.{where}{part}"] = (
                    number(getattr(distances[place], part), MARGIN)
                    if distances
                    else NotRun(NOT_EVALUATED)
                )
    return facts


QUANTITIES = quantities(__package__, "Preferences", {}, near_and_far, NAMES, WORDS)
