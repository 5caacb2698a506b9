"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, Quantities, estimate

STRONGEST = ("previous", "self", "next", "first")
HEADS = (*STRONGEST, *(f"{name}.{part}" for name in STRONGEST for part in ("layer", "head")))


def heads(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Mass of the heads that look most at one place, and which heads they are."""
    numbers: dict[str, Entry] = {}
    for name in STRONGEST:
        value = measurement["strongest"][name]
        if name == "next" and measurement["is_causal"]:
            why = NotRun("a causal head sees no next token")
            numbers |= dict.fromkeys((name, f"{name}.layer", f"{name}.head"), why)
            continue
        numbers[name] = estimate(value)
        for part in ("layer", "head"):
            numbers[f"{name}.{part}"] = Number(value[part])
    return numbers


WORDS = {
    "previous": "strongest on the previous token",
    "self": "strongest on the token itself",
    "next": "strongest on the next token",
    "first": "strongest on the first token",
    "layer": "its layer",
    "head": "its head",
}
QUANTITIES = Quantities(read=heads, names=HEADS, words=WORDS)
