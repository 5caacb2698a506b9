"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.filtered_loss.quantities import LOST, NO_LOSS

if TYPE_CHECKING:
    from posenc.measurements.position_interventions.result import (
        Costs,
        Layer,
        PositionInterventions,
    )

INTERVENED = ("removed", "injected", "withheld")
DEPTHS = ("first", "second", "middle", "last")
NO_SHARE = Printed(absent="nothing is lost without positions")
NO_ALIGNMENT = Printed(absent="positions add nothing there")
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


def position_interventions(result: PositionInterventions) -> Facts:
    """Cost of taking position from the input of four layers and the last states, or adding it.

    ``size`` is the length of position's mean part over that of the states, both less their means.
    """
    layers = result.layers
    places = (0, min(1, len(layers) - 1), len(layers) // 2, len(layers) - 1)
    rows = {depth: layers[place] for depth, place in zip(DEPTHS, places, strict=True)}
    facts: Facts = {
        "documents": Number(result.documents),
        "tokens": Number(result.tokens),
        "positions": Number(result.positions),
    }
    facts |= {f"without.{part}": number(getattr(result.without, part), NO_LOSS) for part in LOST}

    def write(key: str, costs: Costs) -> None:
        for part in INTERVENTION:
            *of, name = part.split(".")
            difference = getattr(costs, of[0] if of else "own")
            how = NO_SHARE if name == "share" else NO_LOSS
            facts[f"{key}.{part}"] = number(getattr(difference, name), how)

    def cost(layer: Layer) -> float:
        return (layer.withheld.own.delta_nll or layer.withheld.own.distance).value

    for depth, row in {**rows, "output": result.output}.items():
        facts[f"{depth}.size"] = Number(row.position / row.states)
        facts[f"{depth}.alignment"] = number(row.alignment, NO_ALIGNMENT)
        write(f"removed.{depth}", row.removed)
        write(f"injected.{depth}", row.injected)
        if (withheld := getattr(row, "withheld", None)) is not None:
            write(f"withheld.{depth}", withheld)
    most = max(layers, key=cost)
    facts["withheld.most.layer"] = Number(most.layer)
    write("withheld.most", most.withheld)
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
QUANTITIES = quantities(
    __package__,
    "PositionInterventions",
    {},
    position_interventions,
    names=POSITION_INTERVENTIONS,
    words=WORDS,
)
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
