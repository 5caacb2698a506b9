"""Shares of the variance of attention scores: content, mask and interaction, by layer."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.score_parts.result import Decomposition, LayerTerms

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
    runs = of_kind(measurements, "score_parts", Decomposition)
    rows = by_dataset(common.measured(canvas, runs, "no scores were measured"))
    if not rows:
        return
    dataset, shown = next(iter(rows.items()))
    panels = canvas.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, run in zip(panels, shown, strict=True):
        _shares(axes, run.result, style)
        axes.set_title(common.title(canvas, run.model, len(shown)))
        common.layer_ticks(axes, len(shown))
    panels[0].set_ylabel("share of the scores' variance")
    canvas.supxlabel(f"layer ({common.display(dataset)})", fontsize=style.font_size)
    common.legend_above(canvas, panels, columns=len(SERIES) + 1)


def of_layers(result: Decomposition) -> list[LayerTerms]:
    """Shares by layer over all pairs, each query's mean included."""
    (entry,) = (
        entry for entry in result.shares if entry.weights == "pairs" and not entry.within_query
    )
    return entry.layers


def _shares(axes: Axes, result: Decomposition, style: Style) -> None:
    layers = of_layers(result)
    xs = [row.layer for row in layers]
    for place, (name, label) in enumerate(SERIES.items()):
        curve(
            axes, xs, [getattr(row, name) for row in layers], color=style.palette[place],
            label=label, marker=common.MARKERS[place], ms=2.5, lw=1.1,
        )  # fmt: skip
    rest = [1 - sum(getattr(row, name).value for name in SERIES) for row in layers]
    axes.plot(xs, rest, color=common.GREY, ls=":", lw=1, label=COVARIANCES)
    axes.axhline(0, color="0.75", lw=0.5, zorder=0)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
