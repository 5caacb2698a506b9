"""Shares of the variance of attention scores: content, mask and interaction, by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import by_dataset, curve, of_kind
from posenc.drawing.section import Figure, Style

SERIES = {"content": "content", "mask": "mask in closed form", "interaction": "interaction"}
COVARIANCES = "covariances of two"


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the share of each part by layer, a panel per model, on the headline data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of score_parts.

    Returns
    -------
    Means over the heads of a layer, over all pairs that see each other, with their intervals.
    """
    selected = of_kind(measurements, "score_parts")
    rows = by_dataset(common.measured(canvas, selected, "no scores were measured"))
    if not rows:
        return
    dataset, shown = next(iter(rows.items()))
    panels = canvas.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, measurement in zip(panels, shown, strict=True):
        _shares(axes, measurement, style)
        axes.set_title(common.title(canvas, measurement["run"]["model"], len(shown)))
        common.layer_ticks(axes, len(shown))
    panels[0].set_ylabel("share of the scores' variance")
    canvas.supxlabel(f"layer ({common.display(dataset)})", fontsize=style.font_size)
    common.legend_above(canvas, panels, columns=len(SERIES) + 1)


def of_layers(measurement: dict) -> list[Mapping[str, Any]]:
    """Shares by layer over all pairs, each query's mean included."""
    (entry,) = (
        entry
        for entry in measurement["shares"]
        if entry["weights"] == "pairs" and not entry["within_query"]
    )
    return entry["layers"]


def _shares(axes: Axes, measurement: dict, style: Style) -> None:
    layers = of_layers(measurement)
    xs = [row["layer"] for row in layers]
    for place, (name, label) in enumerate(SERIES.items()):
        curve(
            axes, xs, [row[name] for row in layers], color=style.palette[place], label=label,
            marker=common.MARKERS[place], ms=2.5, lw=1.1,
        )  # fmt: skip
    rest = [1 - sum(row[name]["value"] for name in SERIES) for row in layers]
    axes.plot(xs, rest, color=common.GREY, ls=":", lw=1, label=COVARIANCES)
    axes.axhline(0, color="0.75", lw=0.5, zorder=0)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
