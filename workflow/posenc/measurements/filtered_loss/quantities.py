"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.spectra.quantities import BANDS

if TYPE_CHECKING:
    from posenc.measurements.filtered_loss.result import FilteredLoss, Layer

FILTERS = {"without": "left_out", "only": "kept"}
"""Ways to filter, by the first part of a key."""
BESIDE = ("random", "scaled", "beyond_random", "beyond_scaled")
LOST = ("delta_nll", "distance")
NO_LOSS = Printed(absent="an encoder has no loss")
FILTERED_LOSS = (
    "documents", "tokens",
    *(f"{way}.{band}.{part}" for way in FILTERS for band in ("mean", *BANDS)
      for part in (*LOST, *(f"{of}.{name}" for of in (*BESIDE, "most") for name in LOST),
                   "most.layer")),
)  # fmt: skip


def filtered_loss(result: FilteredLoss) -> Facts:
    """What filters of queries and keys cost in all layers, beside controls, and most in one.

    Bands between the lowest and the highest count as the middle one.
    """
    last = len(result.bands) - 2
    places: dict[str, int | str] = {"mean": "mean"}
    places |= dict(zip(BANDS, (0, min(1, last), last), strict=True))
    filters = {(entry.way, entry.band): entry for entry in result.filters}
    facts: Facts = {"documents": Number(result.documents), "tokens": Number(result.tokens)}

    def cost(layer: Layer) -> float:
        return (layer.cost.delta_nll or layer.cost.distance).value

    for name, way in FILTERS.items():
        for band, place in places.items():
            of_filter = filters[way, place]
            most = max(of_filter.layers, key=cost)
            parts = {"": of_filter.cost, "most.": most.cost}
            parts |= {f"{of}.": getattr(of_filter, of) for of in BESIDE}
            facts |= {
                f"{name}.{band}.{of}{part}": number(getattr(difference, part), NO_LOSS)
                for of, difference in parts.items()
                for part in LOST
            }
            facts[f"{name}.{band}.most.layer"] = Number(most.layer)
    return facts


WORDS = {
    "documents": "documents",
    "tokens": "tokens",
    "without": "queries and keys without a band",
    "only": "queries and keys of one band alone",
    "mean": "mean",
    "low": "low frequencies",
    "middle": "middle frequencies",
    "high": "high frequencies",
    "random": "as many directions at random",
    "scaled": "as much of the length, directions kept",
    "beyond_random": "more than as many directions at random",
    "beyond_scaled": "more than as much of the length",
    "most": "in the layer where it costs most",
    "layer": "which layer",
    "delta_nll": "loss, minus the intact model's (nats per token)",
    "distance": "1 − cosine of the last hidden state with the intact model's",
}
QUANTITIES = quantities(
    __package__,
    "FilteredLoss",
    {},
    filtered_loss,
    names=FILTERED_LOSS,
    words=WORDS,
)
FIGURE = Exhibit(
    "C2 band-pass: what it costs",
    ("filtered_loss",),
    height=4.6,
    caption="What a model loses when queries and keys lose a band of frequencies along the "
    "sequence, or keep one alone; a decoder's filter sees what comes before a query. Above: in "
    "all layers, beside as many directions at random, and beside queries and keys that lose as "
    "much of their length and keep their directions. Below: each band left out of one layer, "
    "and (dotted) as many directions at random.",
    alt="Points with intervals, a column for each model: lost nats per token, or the distance "
    "of the last hidden states, by band, and line charts of the same by layer.",
)
