"""How much of what positions were worth a mask recovers."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import ArrayLike, NDArray

from posenc.artifacts.runs import Run, by_dataset
from posenc.conditions.groups import MASKED
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.figures import conditions
from posenc.measurements.conditions.result import EvaluatedConditions

LOWEST, HIGHEST = -2.0, 0.99
LEVELS = (0.0, 0.9)
TICKS = (-2, -1, 0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99)


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the recovered share of the lost log-perplexity by mask, with a panel for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions; those of encoders are left out.

    Returns
    -------
    A mark with its interval for each decoder; a number beside an arrow where the share lies
    beyond the axis. A data set on which nothing is lost has no shares, and says so. Equal steps on
    the axis are equal factors of what is still lost, 1 - share: near the intact model masks are
    told apart, too.
    """
    measured, reasons = conditions.decoders(measurements)
    if not conditions.rows(measured, *MASKED):
        common.not_run(canvas.add_subplot(), reasons or ["the study has no mask"], 60)
        return
    draw_runs(canvas, measured, style)


def draw_runs(canvas: Canvas, measured: list[Run[EvaluatedConditions]], style: Style) -> None:
    """Draw measured conditions of decoders with a table, or what a record has of them."""
    names = conditions.rows(measured, *MASKED)
    panels = by_dataset(measured)
    shares = [any(map(conditions.has_shares, runs)) for runs in panels.values()]
    layout = canvas.add_gridspec(1, len(panels), width_ratios=[2 if s else 1 for s in shares])
    first = None
    for place, runs in enumerate(panels.values()):
        axes = canvas.add_subplot(layout[place], sharey=first)
        axes.set_title(evaluated.panel_title(runs[0]) if len(runs) == 1 else
                       common.display(runs[0].dataset))  # fmt: skip
        if shares[place]:
            _draw_panel(axes, runs, names, style)
        else:
            evaluated.nothing_is_lost(axes)
            axes.set_xticks([])
            axes.spines["bottom"].set_visible(False)
        first = evaluated.share_rows(axes, names, first)
        axes.spines["left"].set_visible(False)
    if any(shares):
        label = (
            "share ρ of the lost log-perplexity recovered (0: no positions; logarithmic in 1 − ρ)"
        )
        canvas.supxlabel(label, fontsize=style.font_size)
    models = common.unique(run.model for run in measured)
    named = canvas.axes if len(models) > 1 else []  # a single one is in the titles
    common.legend_above(canvas, named, columns=4, more=evaluated.arrows(canvas))


def _draw_panel(
    axes: Axes, runs: list[Run[EvaluatedConditions]], names: list[tuple[str, bool]], style: Style
) -> None:
    for level in LEVELS:
        axes.axvline(level, color=common.GREY, lw=0.7, ls="--" if level == 0.9 else "-")
    colours, colour = conditions.group_colours(style), ""
    for row, (name, is_heading) in enumerate(names):
        if is_heading:
            colour = colours[name]
            continue
        for order, run in enumerate(runs):
            entry = conditions.entries(run).get(name)
            if entry is None or entry.recovered is None:
                continue
            # Side by side, so that marks of several decoders do not hide each other.
            height = row + 0.5 * ((order + 1) / (len(runs) + 1) - 0.5)
            evaluated.share(
                axes, entry.recovered, height, (LOWEST, HIGHEST), colour,
                marker=common.MARKERS[order % len(common.MARKERS)], is_filled=order == 0,
                label=common.display(run.model),
            )  # fmt: skip
    axes.set_xscale("function", functions=(steps, shares_of))
    axes.set_xlim(LOWEST, HIGHEST)
    axes.set_xticks(TICKS, [f"{tick:g}".replace("-", "−") for tick in TICKS])


def steps(shares: ArrayLike) -> NDArray[np.float64]:
    """How many tenfold steps a recovered share is from nothing recovered: -log10(1 - share).

    A share beyond the axis may be 1 or more; it is placed at its end.
    """
    return -np.log10(1 - np.clip(shares, None, (1 + HIGHEST) / 2))


def shares_of(steps: ArrayLike) -> NDArray[np.float64]:
    """The recovered share that is so many steps from nothing recovered."""
    return 1 - 10.0 ** -np.asarray(steps, np.float64)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
