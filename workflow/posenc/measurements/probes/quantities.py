"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Quantities, estimate

PLACES = ("embedding", "best", "last")
PROBES = (
    *(f"{place}.{kind}" for place in PLACES for kind in ("ridge", "relu", "order", "order_relu")),
    "chance",
    "control",
    "control_order",
)


def probes(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Errors of the probes at the embedding, at the linear probe's best layer, and at the last.

    ``order`` is of the linear probe. Controls are linear probes of shuffled labels, at the
    embedding.
    """
    layers = measurement["layers"]
    best = min(layers, key=lambda layer: layer["position"]["ridge"]["value"])
    facts: dict[str, Entry] = {}
    for place, layer in zip(PLACES, (layers[0], best, layers[-1]), strict=True):
        for kind in ("ridge", "relu"):
            facts[f"{place}.{kind}"] = estimate(layer["position"][kind])
        facts[f"{place}.order"] = estimate(layer["order"]["logistic"])
        facts[f"{place}.order_relu"] = estimate(layer["order"]["relu"])
    facts["chance"] = estimate(measurement["chance"]["position"])
    facts["control"] = estimate(layers[0]["position"]["ridge_control"])
    facts["control_order"] = estimate(layers[0]["order"]["logistic_control"])
    return facts


WORDS = {
    "ridge": "error of the position, linear probe (tokens)",
    "relu": "error of the position, one hidden layer (tokens)",
    "order": "share of pairs put in the wrong order, linear probe",
    "order_relu": "share of pairs put in the wrong order, one hidden layer",
    "chance": "error of the best constant (tokens)",
    "control": "error with shuffled labels (tokens)",
    "control_order": "share in the wrong order with shuffled labels",
}
QUANTITIES = Quantities(read=probes, names=PROBES, words=WORDS)
