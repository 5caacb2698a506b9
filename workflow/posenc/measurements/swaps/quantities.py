"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import NOT_EVALUATED, Entry, Quantities, estimate, with_spoken
from posenc.measurements.induction.quantities import UNDER

ORDER = ("preference", "margin", "recovered", "later", "later_recovered")
SWAPS = tuple(
    f"{condition}.{where}{part}"
    for condition in (*UNDER, "single_token")
    for where in ("", "far.")
    for part in ORDER
)


def swaps(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Preference for a text over its swapped form, of the nearest words and of the furthest."""
    entries = {entry["condition"]: entry["distances"] for entry in measurement["conditions"]}
    facts: dict[str, Entry] = {}
    for condition in with_spoken((*UNDER, "single_token"), entries):
        at = sorted(entries.get(condition, ()), key=lambda entry: entry["distance"])
        reason = "the intact model has no margin that it loses"
        if not at:
            at, reason = [dict.fromkeys(ORDER)], NOT_EVALUATED
        for where, entry in (("", at[0]), ("far.", at[-1])):
            facts |= {f"{condition}.{where}{part}": estimate(entry[part], reason) for part in ORDER}
    return facts


WORDS = {
    "preference": "share of swaps whose text is preferred to its swapped form",
    "margin": "loss of a swapped text beyond its own (nats per swap)",
    "recovered": "recovered share of the lost margin",
    "later": "the same, of tokens that follow the swap with the same token before them",
    "later_recovered": "recovered share of the lost margin, of those tokens",
}
QUANTITIES = Quantities(read=swaps, names=SWAPS, words=WORDS)
