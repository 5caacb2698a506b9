"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import number, quantities

if TYPE_CHECKING:
    from posenc.measurements.probes.result import PositionProbes

PLACES = ("embedding", "best", "last")
PROBES = (
    *(f"{place}.{kind}" for place in PLACES for kind in ("ridge", "relu", "order", "order_relu")),
    "chance",
    "control",
    "control_order",
)


def probes(result: PositionProbes) -> Facts:
    """Errors of the probes at the embedding, at the linear probe's best layer, and at the last.

    ``order`` is of the linear probe. Controls are linear probes of shuffled labels, at the
    embedding.
    """
    first, last = result.layers[0], result.layers[-1]
    best = min(result.layers, key=lambda layer: layer.position.ridge.value)
    facts: Facts = {}
    for place, layer in zip(PLACES, (first, best, last), strict=True):
        facts[f"{place}.ridge"] = number(layer.position.ridge)
        facts[f"{place}.relu"] = number(layer.position.relu)
        facts[f"{place}.order"] = number(layer.order.logistic)
        facts[f"{place}.order_relu"] = number(layer.order.relu)
    facts["chance"] = number(result.chance.position)
    facts["control"] = number(first.position.ridge_control)
    facts["control_order"] = number(first.order.logistic_control)
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
QUANTITIES = quantities(__package__, "PositionProbes", {}, probes, PROBES, WORDS)
