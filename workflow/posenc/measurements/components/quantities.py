"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.probes.quantities import PLACES

if TYPE_CHECKING:
    from posenc.measurements.components.result import PositionComponents

PRINTED: Fields = {
    "amari_between_halves": Printed(
        "largest distance of components of two halves of the documents (Amari index)",
        "components of a half are fewer than its signals",
        name="halves",
    ),
    "amari_chance": Printed("the same of unrelated components", name="halves_chance"),
}
OF_LAYERS = (
    *(f"{place}.correlation" for place in PLACES), "shuffled", "principal", "independent",
    "layers", "converged", "rank",
)  # fmt: skip


def of_layers(result: PositionComponents) -> Facts:
    """First canonical correlation with position; largest position shares at its best layer.

    Independent components depend on the start of the search: their share has its least and most
    over starts. Then: layers in which every search ended by itself, and the lowest rank.
    """
    layers = result.layers
    best = max(layers, key=lambda layer: layer.canonical.held_out[0].value)
    facts: Facts = {
        f"{place}.correlation": number(layer.canonical.held_out[0])
        for place, layer in zip(PLACES, (layers[0], best, layers[-1]), strict=True)
    }
    facts["shuffled"] = number(best.canonical.shuffled[0])
    facts["principal"] = Number(max(best.principal.position_share))
    facts["independent"] = number(best.independent.largest_share)
    facts["layers"] = Number(len(layers))
    facts["converged"] = Number(sum(layer.independent.converged for layer in layers))
    facts["rank"] = Number(min(layer.independent.rank for layer in layers))
    return facts


WORDS = {
    "correlation": "first canonical correlation with position",
    "shuffled": "the same with shuffled positions",
    "principal": "largest share of a principal component between positions",
    "independent": "largest share of an independent component between positions",
    "layers": "layers",
    "converged": "layers in which every search for independent components ended by itself",
    "rank": "lowest rank of the components",
}
QUANTITIES = quantities(__package__, "PositionComponents", PRINTED, of_layers, OF_LAYERS, WORDS)
FIGURE = Exhibit(
    "C4 components",
    ("components",),
    height=4.6,
    caption="Components of hidden states by layer: variance of the leading ones; canonical "
    "correlation with waves of position, on documents that it was not fitted to; and share "
    "of the variance of each component that lies between positions.",
    alt="Line charts by layer: variance of leading components, canonical correlation with "
    "waves of position, shares between positions.",
    drawn="first data set",
)
