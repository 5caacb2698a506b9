"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.scaling.result import ByDimension


def scaling(result: ByDimension) -> Facts:
    """Norm of the softmax's Jacobian and its largest probability, by d_k, raw and scaled."""
    facts: Facts = {"keys": Number(result.keys), "queries": Number(result.queries)}
    # The text speaks of a narrow head and of the widest.
    places = {"narrow": 1 if len(result.dimensions) > 1 else 0, "wide": -1}
    for name, place in places.items():
        entry = result.dimensions[place]
        facts[f"{name}.d_k"] = Number(entry.d_k)
        for kind, scores in (("raw", entry.raw), ("scaled", entry.scaled)):
            facts |= {
                f"{name}.{kind}.variance": number(scores.variance),
                f"{name}.{kind}.largest": number(scores.largest),
                f"{name}.{kind}.frobenius": number(scores.frobenius),
                f"{name}.{kind}.median": number(scores.median.frobenius),
            }
    return facts


QUANTITIES = quantities(__package__, "ByDimension", {}, scaling)
FIGURE = Exhibit(
    "D4 scaling of scores",
    ("scaling",),
    height=2.4,
    caption="Scores, their softmax and its Jacobian by the number of entries of queries and "
    "keys, with and without scaling.",
    alt="Line charts on logarithmic axes: variance of attention scores, largest probability "
    "and norm of the Jacobian against the number of entries of queries and keys.",
)
