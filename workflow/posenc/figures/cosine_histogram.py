"""Histogram of token cosines at one hidden state, against pairs of tokens and the Gaussian null."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Style
from posenc.figures.layer_similarity import PAIRS
from posenc.figures.parameters import Histogram
from posenc.metrics.similarity import gaussian_null_density


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Histogram, style: Style) -> None:
    """Draw the density of token cosines, model by data set, for each condition.

    Parameters
    ----------
    measurements : list of dict
        Similarity measurements; those of the intact model are left out.

    Returns
    -------
    A filled histogram for each condition, random pairs of the intact model as a dashed
    outline, pairs of one document as one of dashes and dots, pairs of the same token as a dotted
    one (where there are any), and the Gaussian null's exact density as a line.
    """
    colours = common.condition_colours(measurements, style)
    for axes, measured in common.small_multiples(canvas, measurements):
        for run in measured:
            condition = run["run"]["condition"]
            histogram = run["histograms"]
            axes.stairs(
                histogram[figure.layer]["cosine"], histogram["edges"], fill=True, alpha=0.45,
                color=colours[condition], label=common.display(condition),
            )  # fmt: skip
        _draw_nulls(axes, measured[0], figure.layer)
        _set_limits(axes, measured, figure)
    if any(measurement["status"] == "measured" for measurement in measurements):
        where = "the embedding" if figure.layer == "embedding" else "the last hidden state"
        canvas.supylabel("density", fontsize=style.font_size)
        canvas.supxlabel(f"token cosine at {where}", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=4)


def _draw_nulls(axes, measurement: dict, layer: str) -> None:
    histogram = measurement["histograms"]
    for key, style, label in PAIRS:
        if key in histogram[layer]:
            axes.stairs(
                histogram[layer][key], histogram["edges"], color=common.GREY, ls=style, lw=1,
                label=label,
            )  # fmt: skip
    cosine = np.linspace(-1, 1, 2001)
    density = gaussian_null_density(cosine, measurement["d_model"])
    axes.plot(cosine, density, color="black", lw=0.9, label="Gaussian null")


def _set_limits(axes, measured: list[dict], figure: Histogram) -> None:
    """Begin where the data or the bulk of the Gaussian null begin, and end at one."""
    left, smallest = [], []
    for run in measured:
        edges = np.asarray(run["histograms"]["edges"])
        left.append(-4 * run["gaussian_null"]["sd"])
        for density in run["histograms"][figure.layer].values():
            filled = np.flatnonzero(density)
            if filled.size:
                left.append(edges[filled[0]])
                smallest.append(min(value for value in density if value > 0))
    axes.set_xlim(max(-1.0, min(left)) - 0.02, 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    if figure.logarithmic and smallest:
        low, high = min(smallest) / 2, axes.get_ylim()[1] * 2
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        ticks = common.logarithmic_ticks(low, high, 5)
        axes.set_yticks(ticks, [common.plain_number(tick) for tick in ticks])
        axes.minorticks_off()
    else:
        axes.set_ylim(0, None)
        axes.yaxis.set_major_locator(MaxNLocator(4))


main = command(draw, Histogram)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
