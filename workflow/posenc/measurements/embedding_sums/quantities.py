"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.metrics.superposition import at_half

if TYPE_CHECKING:
    from posenc.measurements.embedding_sums.result import Mixture, Recalls, Width


DERIVED = ("both", "both_centred", "gaussian", "inner_product", "needed")
NO_HALF = Printed(absent="no two token embeddings are mixed at equal weights")
PRINTED: Fields = {"pairs": Printed(), "rows": Printed()}


def at_half_in_own_width(result: Recalls) -> Facts:
    """How often both token embeddings of a sum are found, at the table's own width."""

    def half(table: list[Width]) -> Mixture | None:
        return at_half(table[-1].weights)

    model, centred, gaussian = map(half, (result.model, result.centred, result.gaussian))
    needed = at_half(result.needed_dimensions)
    return {
        "both": number(model.cosine.both if model else None, NO_HALF),
        "both_centred": number(centred.cosine.both if centred else None, NO_HALF),
        "gaussian": number(gaussian.cosine.both if gaussian else None, NO_HALF),
        "inner_product": number(model.inner_product.both if model else None, NO_HALF),
        "needed": number(needed.dimensions if needed else None, NO_HALF),
    }


WORDS = {
    "both": "share of pairs, both found",
    "both_centred": "share of pairs, both found, mean subtracted",
    "gaussian": "share of pairs, both found, Gaussian table",
    "inner_product": "share of pairs, both found by inner product",
    "needed": "dimensions needed",
}
QUANTITIES = quantities(__package__, "Recalls", PRINTED, at_half_in_own_width, DERIVED, WORDS)
