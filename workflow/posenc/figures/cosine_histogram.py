"""Histogram of token cosines at one hidden state, against pairs of tokens and the Gaussian null."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Style
from posenc.figures.layer_similarity import PAIRS
from posenc.figures.parameters import Histogram
from posenc.measurements.similarity.result import Similarities
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
    runs = of_kind(measurements, "similarity", Similarities)
    colours = common.condition_colours(runs, style)
    for axes, measured in common.small_multiples(canvas, runs):
        for run in measured:
            axes.stairs(
                _densities(run.result, figure.layer)["cosine"], run.result.histograms["edges"],
                fill=True, alpha=0.45, color=colours[run.condition],
                label=common.display(run.condition),
            )  # fmt: skip
        _draw_nulls(axes, measured[0].result, figure.layer)
        _set_limits(axes, [run.result for run in measured], figure)
    if any(run.measured is not None for run in runs):
        where = "the embedding" if figure.layer == "embedding" else "the last hidden state"
        canvas.supylabel("density", fontsize=style.font_size)
        canvas.supxlabel(f"token cosine at {where}", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=4)


def _densities(result: Similarities, layer: str) -> dict[str, list[float]]:
    densities = result.histograms[layer]
    assert isinstance(densities, dict)
    return densities


def _draw_nulls(axes: Axes, result: Similarities, layer: str) -> None:
    densities = _densities(result, layer)
    for key, style, label in PAIRS:
        if key in densities:
            axes.stairs(
                densities[key], result.histograms["edges"], color=common.GREY, ls=style, lw=1,
                label=label,
            )  # fmt: skip
    cosine = np.linspace(-1, 1, 2001)
    density = gaussian_null_density(cosine, result.d_model)
    axes.plot(cosine, density, color="black", lw=0.9, label="Gaussian null")


def _set_limits(axes: Axes, results: list[Similarities], figure: Histogram) -> None:
    """Begin where the data or the bulk of the Gaussian null begin, and end at one."""
    left, smallest = [], []
    for result in results:
        edges = np.asarray(result.histograms["edges"])
        left.append(-4 * result.gaussian_null.sd)
        for density in _densities(result, figure.layer).values():
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
