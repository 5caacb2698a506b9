"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, NotRun, Number
from posenc.artifacts.printing import number, quantities

if TYPE_CHECKING:
    from posenc.measurements.heads.result import Attention

STRONGEST = ("previous", "self", "next", "first")
HEADS = (*STRONGEST, *(f"{name}.{part}" for name in STRONGEST for part in ("layer", "head")))


def strongest(result: Attention) -> Facts:
    """Mass of the heads that look most at one place, and which heads they are."""
    facts: Facts = {}
    for name in STRONGEST:
        head = result.strongest[name]
        if name == "next" and result.is_causal:
            why = NotRun("a causal head sees no next token")
            facts |= dict.fromkeys((name, f"{name}.layer", f"{name}.head"), why)
            continue
        facts[name] = number(head)
        facts[f"{name}.layer"], facts[f"{name}.head"] = Number(head.layer), Number(head.head)
    return facts


WORDS = {
    "previous": "strongest on the previous token",
    "self": "strongest on the token itself",
    "next": "strongest on the next token",
    "first": "strongest on the first token",
    "layer": "its layer",
    "head": "its head",
}
QUANTITIES = quantities(__package__, "Attention", {}, strongest, HEADS, WORDS)
