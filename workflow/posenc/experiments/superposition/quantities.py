"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import FLOAT64, Facts, Number, Quantities, entry_at, estimate, percent
from posenc.measurements.embedding_sums.quantities import HALF


def superposition(measurement: Mapping[str, Any]) -> Facts:
    """Recall of both images at equal weights, and how far networks are from additive."""
    facts: Facts = {
        "seeds": Number(len(measurement["seeds"])),
        "chance": percent(measurement["chance"]["both"]),
        "pairs": Number(measurement["images"]["pairs"]),
        "affine_gap": Number(measurement["affine_gap"], rounding=FLOAT64),
    }
    for entry in measurement["classifiers"]:
        place, name = entry_at(entry["mixtures"], "weight", HALF), entry["name"]
        facts[f"{name}.accuracy"] = percent(entry["accuracy"])
        facts[f"{name}.both"] = percent(place["inputs"]["both"])
        facts[f"{name}.outputs"] = percent(place["outputs"]["both"])
        facts[f"{name}.gap"] = estimate(list(place["gap"].values())[-1], rounding=FLOAT64)
        facts[f"{name}.numbers"] = Number(entry["numbers"])
    place = entry_at(measurement["differences"], "weight", HALF)
    for key in ("logistic_regression", "outputs"):
        facts[f"difference.{key}"] = percent(place[key])
    return facts


QUANTITIES = Quantities(
    read=superposition,
)
