"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Facts, Number, Quantities, entry_at, estimate

EMBEDDING_SUMS = ("both", "both_centred", "gaussian", "inner_product", "pairs", "rows", "needed")
HALF = 0.5
"""Mixing weight that documents report."""


def embedding_sums(measurement: Mapping[str, Any]) -> Facts:
    """How often both token embeddings of a sum are found, at the table's own width."""

    def both(entries: list[Mapping[str, Any]], by: str = "cosine") -> Entry:
        return estimate(entry_at(entries[-1]["weights"], "weight", HALF)[by]["both"])

    return {
        "both": both(measurement["model"]),
        "both_centred": both(measurement["centred"]),
        "gaussian": both(measurement["gaussian"]),
        "inner_product": both(measurement["model"], "inner_product"),
        "pairs": Number(measurement["pairs"]),
        "rows": Number(measurement["rows"]),
        "needed": Number(entry_at(measurement["needed_dimensions"], "weight", HALF)["dimensions"]),
    }


WORDS = {
    "both": "share of pairs, both found",
    "both_centred": "share of pairs, both found, mean subtracted",
    "gaussian": "share of pairs, both found, Gaussian table",
    "inner_product": "share of pairs, both found by inner product",
    "needed": "dimensions needed",
}
QUANTITIES = Quantities(read=embedding_sums, names=EMBEDDING_SUMS, words=WORDS)
