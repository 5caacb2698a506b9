"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.filtered_loss.quantities import LOST

INTERVENED = ("removed", "injected", "withheld")
DEPTHS = ("first", "second", "middle", "last")
INTERVENTION = (
    *LOST,
    "share",
    *(f"{of}.share" for of in ("permuted", "offset", "beyond_permuted", "beyond_offset")),
)
POSITION_INTERVENTIONS = (
    "documents", "tokens", "positions", "without.delta_nll", "without.distance",
    *(f"{depth}.{part}" for depth in (*DEPTHS, "output") for part in ("size", "alignment")),
    *(f"{way}.{depth}.{part}" for way in INTERVENED for depth in DEPTHS for part in INTERVENTION),
    *(f"{way}.output.{part}" for way in INTERVENED[:2] for part in INTERVENTION),
    *(f"withheld.most.{part}" for part in ("layer", *INTERVENTION)),
)  # fmt: skip


def position_interventions(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Cost of taking position from the input of four layers and the last states, or adding it.

    ``size`` is the length of position's mean part over that of the states, both less their means.
    """
    no_loss, no_share = "an encoder has no loss", "nothing is lost without positions"
    layers = measurement["layers"]
    places = (0, min(1, len(layers) - 1), len(layers) // 2, len(layers) - 1)
    rows = {depth: layers[place] for depth, place in zip(DEPTHS, places, strict=True)}
    names = ("documents", "tokens", "positions")
    facts: dict[str, Entry] = {name: Number(measurement[name]) for name in names}
    facts |= {f"without.{part}": estimate(measurement["without"][part], no_loss) for part in LOST}

    def costs(key: str, entry: Mapping[str, Any]) -> None:
        for part in INTERVENTION:
            *of, name = part.split(".")
            value = entry[of[0] if of else "own"][name]
            facts[f"{key}.{part}"] = estimate(value, no_share if name == "share" else no_loss)

    for depth, row in {**rows, "output": measurement["output"]}.items():
        facts[f"{depth}.size"] = Number(row["position"] / row["states"])
        facts[f"{depth}.alignment"] = estimate(row["alignment"], "positions add nothing there")
        for way in INTERVENED:
            if way in row:
                costs(f"{way}.{depth}", row[way])
    judged = "delta_nll" if measurement["is_causal"] else "distance"
    most = max(layers, key=lambda row: row["withheld"]["own"][judged]["value"])
    facts["withheld.most.layer"] = Number(most["layer"])
    costs("withheld.most", most["withheld"])
    return facts


WORDS = {
    "documents": "documents",
    "tokens": "tokens",
    "positions": "positions",
    "without": "without position embeddings",
    "removed": "position taken from this layer's input on",
    "injected": "position missing up to this layer's input",
    "withheld": "position taken from this layer alone",
    "first": "first layer",
    "second": "second layer",
    "middle": "middle layer",
    "last": "last layer",
    "output": "last states themselves",
    "most": "layer where it costs most",
    "layer": "which layer",
    "size": "length of position's mean part, over that of the states",
    "alignment": "cosine of position's mean part with that of the first layer",
    "permuted": "that of another position",
    "offset": "the mean over positions",
    "beyond_permuted": "more than that of another position",
    "beyond_offset": "more than the mean over positions",
    "share": "share of what is lost without positions",
    "delta_nll": "loss, minus the intact model's (nats per token)",
    "distance": "1 − cosine of the last hidden state with the intact model's",
}
QUANTITIES = Quantities(read=position_interventions, names=POSITION_INTERVENTIONS, words=WORDS)
FIGURE = Exhibit(
    "C5 where position is needed",
    ("position_interventions",),
    height=5.0,
    caption="Share of what a model loses without position embeddings when their mean effect on "
    "the input of one layer is taken from the intact model (removed), added to the model whose "
    "table is zero (injected), or taken from that layer alone and put back behind it "
    "(withheld); the lower line is the intact model, the upper one that without positions. At "
    "the end it is the last states that are changed. Dashed: the effect of another position, "
    "by one permutation, and the mean over positions. Shares beyond the axis are not shown.",
    alt="Line charts, a column for each model: share of what is lost without positions, by "
    "layer, when position is removed, injected or withheld, beside two controls.",
)
