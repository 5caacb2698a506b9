"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit


def scaling(measurement: Mapping[str, Any]) -> Facts:
    """Norm of the softmax's Jacobian and its largest probability, by d_k, raw and scaled."""
    facts: Facts = {
        "keys": Number(measurement["keys"]),
        "queries": Number(measurement["queries"]),
    }
    # The text speaks of a narrow head and of the widest.
    places = {"narrow": 1 if len(measurement["dimensions"]) > 1 else 0, "wide": -1}
    for name, place in places.items():
        entry = measurement["dimensions"][place]
        facts[f"{name}.d_k"] = Number(entry["d_k"])
        for kind in ("raw", "scaled"):
            for key in ("variance", "largest", "frobenius"):
                facts[f"{name}.{kind}.{key}"] = estimate(entry[kind][key])
            facts[f"{name}.{kind}.median"] = estimate(entry[kind]["median"]["frobenius"])
    return facts


QUANTITIES = Quantities(
    read=scaling,
)
FIGURE = Exhibit(
    "D4 scaling of scores",
    ("scaling",),
    height=2.4,
    caption="Scores, their softmax and its Jacobian by the number of entries of queries and "
    "keys, with and without scaling.",
    alt="Line charts on logarithmic axes: variance of attention scores, largest probability "
    "and norm of the Jacobian against the number of entries of queries and keys.",
)
