"""How much of what rotation adds to the scores partial sums of its terms explain, by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import by_dataset, curve, of_kind
from posenc.drawing.section import Figure, Style

SERIES = {
    "mask": "mask",
    "mask_key": "mask and key",
    "mask_query": "mask and query",
    "first_order": "all of first order",
}
CONTROL = "means of other heads"


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw what partial sums explain by layer for the first rotary model, a panel per data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of rotation_terms.

    Returns
    -------
    Means over the heads of a layer, over all pairs that see each other, with their intervals.
    """
    selected = of_kind(measurements, "rotation_terms")
    rows = by_dataset(common.measured(canvas, selected, "no rotary model in this study"))
    if not rows:
        return
    panels = canvas.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    for axes, (dataset, (measurement, *_)) in zip(panels, rows.items(), strict=True):
        _explained(axes, measurement, style)
        axes.set_title(common.display(dataset))
        common.layer_ticks(axes, len(rows))
    panels[0].set_ylabel("share explained")
    model = next(iter(rows.values()))[0]["run"]["model"]
    canvas.supxlabel(f"layer ({common.display(model)})", fontsize=style.font_size)
    common.legend_above(canvas, panels, columns=3)


def of_layers(measurement: dict, means: str) -> list[Mapping[str, Any]]:
    """By layer, over all pairs, with the means of a kind; empty where there is none."""
    entries = (
        entry["layers"]
        for entry in measurement["explained"]
        if entry["means"] == means and entry["weights"] == "pairs"
    )
    return next(entries, [])


def _explained(axes: Axes, measurement: dict, style: Style) -> None:
    layers = of_layers(measurement, "own")
    xs = [row["layer"] for row in layers]
    for place, (name, label) in enumerate(SERIES.items()):
        curve(
            axes, xs, [row[name] for row in layers], color=style.palette[place], label=label,
            marker=common.MARKERS[place], ms=2.5, lw=1.1,
        )  # fmt: skip
    if control := of_layers(measurement, "other_heads"):
        values = [max(row["first_order"]["value"], -1.0) for row in control]
        axes.plot(xs, values, color=common.GREY, ls=":", lw=1, label=CONTROL)
    axes.axhline(0, color="0.75", lw=0.5, zorder=0)
    axes.set_ylim(-1.05, 1.05)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
