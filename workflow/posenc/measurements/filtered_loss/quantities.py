"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.spectra.quantities import BANDS

FILTERS = {"without": "left_out", "only": "kept"}
"""Ways to filter, by the first part of a key."""
BESIDE = ("random", "scaled", "beyond_random", "beyond_scaled")
LOST = ("delta_nll", "distance")
FILTERED_LOSS = (
    "documents", "tokens",
    *(f"{way}.{band}.{part}" for way in FILTERS for band in ("mean", *BANDS)
      for part in (*LOST, *(f"{of}.{name}" for of in (*BESIDE, "most") for name in LOST),
                   "most.layer")),
)  # fmt: skip


def filtered_loss(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What filters of queries and keys cost in all layers, beside controls, and most in one.

    Bands between the lowest and the highest count as the middle one.
    """
    last = len(measurement["bands"]) - 2
    places = {"mean": "mean", **dict(zip(BANDS, (0, min(1, last), last), strict=True))}
    entries = {(entry["way"], entry["band"]): entry for entry in measurement["filters"]}
    numbers: dict[str, Entry] = {
        part: Number(measurement[part]) for part in ("documents", "tokens")
    }

    def cost(row: Mapping[str, Any]) -> float:
        return row["cost"]["delta_nll" if measurement["is_causal"] else "distance"]["value"]

    for name, way in FILTERS.items():
        for band, place in places.items():
            entry = entries[way, place]
            most = max(entry["layers"], key=cost)
            parts = {"": entry["cost"], "most.": most["cost"]}
            parts |= {f"{of}.": entry[of] for of in BESIDE}
            numbers |= {
                f"{name}.{band}.{of}{part}": estimate(costs[part], "an encoder has no loss")
                for of, costs in parts.items()
                for part in LOST
            }
            numbers[f"{name}.{band}.most.layer"] = Number(most["layer"])
    return numbers


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
QUANTITIES = Quantities(read=filtered_loss, names=FILTERED_LOSS, words=WORDS)
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
