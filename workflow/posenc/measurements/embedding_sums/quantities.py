"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.metrics.superposition import at_half

if TYPE_CHECKING:
    from posenc.measurements.embedding_sums.result import Recall, Recalls, Width


DERIVED = ("both", "both_centred", "gaussian", "inner_product", "needed")
PRINTED: Fields = {"pairs": Printed(), "rows": Printed()}


def at_half_in_own_width(result: Recalls) -> Facts:
    """How often both token embeddings of a sum are found, at the table's own width."""

    def cosine(table: list[Width]) -> Recall:
        return at_half(table[-1].weights).cosine

    return {
        "both": number(cosine(result.model).both),
        "both_centred": number(cosine(result.centred).both),
        "gaussian": number(cosine(result.gaussian).both),
        "inner_product": number(at_half(result.model[-1].weights).inner_product.both),
        "needed": number(at_half(result.needed_dimensions).dimensions),
    }


WORDS = {
    "both": "share of pairs, both found",
    "both_centred": "share of pairs, both found, mean subtracted",
    "gaussian": "share of pairs, both found, Gaussian table",
    "inner_product": "share of pairs, both found by inner product",
    "needed": "dimensions needed",
}
QUANTITIES = quantities(__package__, "Recalls", PRINTED, at_half_in_own_width, DERIVED, WORDS)
