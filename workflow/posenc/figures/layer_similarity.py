"""Token cosine by layer between each condition and the intact model, against three nulls."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.similarity.result import Similarities

PAIRS = (
    ("baseline", "--", "random pairs"),
    ("same_document", "-.", "other token, same document"),
    ("same_token", ":", "same token, other document"),
)
"""Nulls of pairs of the intact model: key, style of the line, label."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw small multiples, model by data set: the mean token cosine of each layer.

    Parameters
    ----------
    measurements : list of dict
        Similarity measurements; those of the intact model are left out.

    Returns
    -------
    A line with its interval for each condition, random pairs of the intact model as a dashed
    line with its interval, pairs of the same token as a dotted one (where there are any), and
    the Gaussian null's mean +- 2 sd as a grey band.
    """
    runs = of_kind(measurements, "similarity", Similarities)
    colours = common.condition_colours(runs, style)
    limits = _limits([run.result for run in runs if run.measured is not None])
    for axes, measured in common.small_multiples(canvas, runs):
        _draw_nulls(axes, measured[0].result)
        for run in measured:
            _draw_condition(axes, run, colours[run.condition])
        axes.set_ylim(*limits)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.margins(x=0.04)
        axes.tick_params(labelleft=common.is_left(axes))
    if any(run.measured is not None for run in runs):
        canvas.supylabel("mean token cosine", fontsize=style.font_size)
        canvas.supxlabel("layer (0: embedding)", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=3)


def _limits(results: list[Similarities]) -> tuple[float, float]:
    """The same vertical axis for all panels: it holds every interval, zero and one."""
    lowest = [0.0]
    for result in results:
        lowest.append(-2 * result.gaussian_null.sd)
        for layer in result.layers:
            shown = [layer.cosine, *(getattr(layer, key) for key, _, _ in PAIRS)]
            lowest += [estimate.low for estimate in shown if estimate]
    return min(lowest) - 0.04, 1.04


def _draw_nulls(axes: Axes, result: Similarities) -> None:
    null = result.gaussian_null
    axes.axhspan(
        null.mean - 2 * null.sd, null.mean + 2 * null.sd,
        color=common.LIGHT, lw=0, label="Gaussian null ± 2 sd",
    )  # fmt: skip
    layers = [layer.layer for layer in result.layers]
    for key, style, label in PAIRS:
        pairs = [getattr(layer, key) for layer in result.layers]
        if None in pairs:
            continue
        axes.fill_between(
            layers, [p.low for p in pairs], [p.high for p in pairs],
            color=common.GREY, alpha=0.25, lw=0,
        )  # fmt: skip
        axes.plot(layers, [p.value for p in pairs], color=common.GREY, ls=style, lw=1, label=label)


def _draw_condition(axes: Axes, run: Run[Similarities], colour: str) -> None:
    layers = [layer.layer for layer in run.result.layers]
    cosine = [layer.cosine for layer in run.result.layers]
    axes.fill_between(
        layers, [c.low for c in cosine], [c.high for c in cosine],
        color=colour, alpha=0.25, lw=0,
    )  # fmt: skip
    axes.plot(
        layers, [c.value for c in cosine], color=colour, marker="o", ms=2.5,
        label=common.display(run.condition),
    )  # fmt: skip


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
