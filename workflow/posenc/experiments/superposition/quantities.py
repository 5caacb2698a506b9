"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import FLOAT64, Facts, Number, Quantities, entry_at, estimate, percent
from posenc.measurements.embedding_sums.quantities import HALF


def superposition(one: Mapping[str, Any]) -> Facts:
    """Recall of both images at equal weights, and how far networks are from additive."""
    found: Facts = {
        "seeds": Number(len(one["seeds"])),
        "chance": percent(one["chance"]["both"]),
        "pairs": Number(one["images"]["pairs"]),
        "affine_gap": Number(one["affine_gap"], rounding=FLOAT64),
    }
    for entry in one["classifiers"]:
        place, name = entry_at(entry["mixtures"], "weight", HALF), entry["name"]
        found[f"{name}.accuracy"] = percent(entry["accuracy"])
        found[f"{name}.both"] = percent(place["inputs"]["both"])
        found[f"{name}.outputs"] = percent(place["outputs"]["both"])
        found[f"{name}.gap"] = estimate(list(place["gap"].values())[-1], rounding=FLOAT64)
        found[f"{name}.numbers"] = Number(entry["numbers"])
    place = entry_at(one["differences"], "weight", HALF)
    for key in ("logistic_regression", "outputs"):
        found[f"difference.{key}"] = percent(place[key])
    return found


QUANTITIES = Quantities(
    read=superposition,
)
