"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.probes.quantities import PLACES

COMPONENTS = (
    *(f"{place}.correlation" for place in PLACES), "shuffled", "principal", "independent",
    "layers", "converged", "halves", "halves_chance", "rank",
)  # fmt: skip


def components(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """First canonical correlation with position; largest position shares at its best layer.

    Independent components depend on the start of the search: their share has its least and most
    over starts. Then: layers in which every search ended by itself, how far components of two
    halves of the documents are apart at most, and the lowest rank.
    """
    layers = measurement["layers"]
    best = max(layers, key=lambda layer: layer["canonical"]["held_out"][0]["value"])
    numbers = {
        f"{place}.correlation": estimate(layer["canonical"]["held_out"][0])
        for place, layer in zip(PLACES, (layers[0], best, layers[-1]), strict=True)
    }
    numbers["shuffled"] = estimate(best["canonical"]["shuffled"][0])
    numbers["principal"] = Number(max(best["principal"]["position_share"]))
    numbers["independent"] = estimate(best["independent"]["largest_share"])
    searches = [layer["independent"] for layer in layers]
    numbers["layers"] = Number(len(searches))
    numbers["converged"] = Number(sum(search["converged"] for search in searches))
    lower = "components of a half are fewer than its signals"
    numbers["halves"] = estimate(measurement["amari_between_halves"], lower)
    numbers["halves_chance"] = Number(measurement["amari_chance"])
    numbers["rank"] = Number(min(search["rank"] for search in searches))
    return numbers


WORDS = {
    "correlation": "first canonical correlation with position",
    "shuffled": "the same with shuffled positions",
    "principal": "largest share of a principal component between positions",
    "independent": "largest share of an independent component between positions",
    "layers": "layers",
    "converged": "layers in which every search for independent components ended by itself",
    "halves": "largest distance of components of two halves of the documents (Amari index)",
    "halves_chance": "the same of unrelated components",
    "rank": "lowest rank of the components",
}
QUANTITIES = Quantities(read=components, names=COMPONENTS, words=WORDS)
FIGURE = Exhibit(
    "C4 components",
    ("components",),
    height=4.6,
    caption="Components of hidden states by layer: variance of the leading ones; canonical "
    "correlation with waves of position, on documents that it was not fitted to; and share "
    "of the variance of each component that lies between positions.",
    alt="Line charts by layer: variance of leading components, canonical correlation with "
    "waves of position, shares between positions.",
)
