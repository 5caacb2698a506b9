"""How much of what rotation adds to the scores partial sums of its terms explain, by layer."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.rotation_terms.result import LayerSums, RotationByOrder

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
    runs = of_kind(measurements, "rotation_terms", RotationByOrder)
    rows = by_dataset(common.measured(canvas, runs, "no rotary model in this study"))
    if not rows:
        return
    panels = canvas.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    for axes, (dataset, (run, *_)) in zip(panels, rows.items(), strict=True):
        _explained(axes, run.result, style)
        axes.set_title(common.display(dataset))
        common.layer_ticks(axes, len(rows))
    panels[0].set_ylabel("share explained")
    model = next(iter(rows.values()))[0].model
    canvas.supxlabel(f"layer ({common.display(model)})", fontsize=style.font_size)
    common.legend_above(canvas, panels, columns=3)


def of_layers(result: RotationByOrder, means: str) -> list[LayerSums]:
    """By layer, over all pairs, with the means of a kind; empty where there is none."""
    entries = (
        entry.layers
        for entry in result.explained
        if entry.means == means and entry.weights == "pairs"
    )
    return next(entries, [])


def _explained(axes: Axes, result: RotationByOrder, style: Style) -> None:
    layers = of_layers(result, "own")
    xs = [row.layer for row in layers]
    for place, (name, label) in enumerate(SERIES.items()):
        curve(
            axes, xs, [getattr(row, name) for row in layers], color=style.palette[place],
            label=label, marker=common.MARKERS[place], ms=2.5, lw=1.1,
        )  # fmt: skip
    if control := of_layers(result, "other_heads"):
        values = [max(row.first_order.value, -1.0) for row in control]
        axes.plot(xs, values, color=common.GREY, ls=":", lw=1, label=CONTROL)
    axes.axhline(0, color="0.75", lw=0.5, zorder=0)
    axes.set_ylim(-1.05, 1.05)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
