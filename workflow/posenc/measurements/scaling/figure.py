"""Attention scores, largest probability and the softmax's Jacobian over d_k, raw and scaled."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.scaling.result import ByDimension, Scores

KINDS = {"raw": ("q·k", "o"), "scaled": ("q·k / √d$_k$", "s")}
"""Label and marker of the two kinds of scores."""
PANELS = {
    "variance": "variance of the scores",
    "largest": "largest probability",
    "frobenius": "norm of the softmax's Jacobian",
}
MOST_TICKS = 6


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the scores' variance, the largest probability and the Jacobian's norm over d_k.

    Parameters
    ----------
    measurements : list of dict
        The measurement of random queries and keys.

    Returns
    -------
    Means over queries with intervals, of raw and scaled scores; dashed their medians, dotted
    the laws d_k and 1 of the variance, and what a uniform pattern has.
    """
    runs = common.measured(canvas, of_kind(measurements, "scaling", ByDimension), "no measurement")
    if not runs:
        return
    result = runs[0].result
    places = [entry.d_k for entry in result.dimensions]
    axes = {
        name: canvas.add_subplot(1, len(PANELS), place + 1) for place, name in enumerate(PANELS)
    }
    for name, panel in axes.items():
        panel.set_title(PANELS[name])
        _curves(panel, result, name, style)
        _dimensions(panel, places)
    _laws(axes["variance"], places)
    axes["largest"].set_ylim(0, 1.03)
    for name in ("variance", "frobenius"):
        _logarithmic(axes[name])
    # Empty lines, for the legend alone.
    axes["variance"].plot([], [], color=common.GREY, ls="--", lw=0.9, label="median")
    axes["variance"].plot([], [], color="k", ls=":", lw=0.9, label="law, or uniform pattern")
    canvas.supxlabel("entries d$_k$ of a query and of a key", fontsize=style.font_size)
    common.legend_above(canvas, axes.values(), columns=4)


def _curves(axes: Axes, result: ByDimension, name: str, style: Style) -> None:
    places = [entry.d_k for entry in result.dimensions]
    for (kind, (label, marker)), colour in zip(KINDS.items(), style.palette, strict=False):
        scores: list[Scores] = [getattr(entry, kind) for entry in result.dimensions]
        curve(
            axes, places, [getattr(entry, name) for entry in scores], color=colour, marker=marker,
            ms=3.2, label=label,
        )  # fmt: skip
        if hasattr(scores[0].median, name):
            middle = [getattr(entry.median, name) for entry in scores]
            curve(axes, places, middle, color=colour, ls="--", lw=0.9)
    if hasattr(result.uniform, name):
        axes.axhline(getattr(result.uniform, name), color="k", ls=":", lw=0.9)


def _laws(axes: Axes, places: list[int]) -> None:
    # Above the means, which hide them otherwise.
    axes.plot(places, places, color="k", ls=":", lw=0.9, zorder=4)
    axes.axhline(1, color="k", ls=":", lw=0.9, zorder=4)


def _dimensions(axes: Axes, places: list[int]) -> None:
    axes.set_xscale("log", base=2)
    apart = math.log2(places[-1] / places[0]) / MOST_TICKS
    shown: list[int] = []
    for place in reversed(places):
        if not shown or math.log2(shown[-1] / place) >= apart:
            shown.append(place)
    axes.set_xticks(shown, [str(place) for place in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = common.logarithmic_ticks(low, high, 5)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
