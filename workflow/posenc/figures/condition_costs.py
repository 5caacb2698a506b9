"""What each condition costs a decoder: the change of its loss against the intact model."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import Run, by_dataset
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.figures.conditions import decoders, group_colours, rows
from posenc.measurements.conditions.result import EvaluatedConditions

WITHOUT = "zero"


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the change of the loss by condition, in groups, with a panel for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions; those of encoders are left out, and where there are
        no others the figure says why.

    Returns
    -------
    A point with its interval for each condition of the first decoder, faint points for the
    others, and a dashed line at the model without positions.
    """
    measured, reasons = decoders(measurements)
    if not measured:
        common.not_run(canvas.add_subplot(), reasons or ["the study has no runs"], 60)
        return
    names = rows(measured)
    panels = by_dataset(measured)
    first = None
    for place, runs in enumerate(panels.values()):
        axes = canvas.add_subplot(1, len(panels), place + 1, sharey=first)
        _draw_panel(axes, runs, names, style)
        axes.set_title(evaluated.panel_title(runs[0]))
        first = evaluated.share_rows(axes, names, first)
    canvas.supxlabel("change of loss (nats per token)", fontsize=style.font_size)


def _draw_panel(
    axes: Axes,
    runs: list[Run[EvaluatedConditions]],
    names: list[tuple[str, bool]],
    style: Style,
) -> None:
    colours, colour = group_colours(style), ""
    axes.axvline(0, color=common.GREY, lw=0.7)
    changes = [_changes(run.result) for run in runs]
    without = changes[0].get(WITHOUT)
    if without:
        axes.axvline(without.value, color=common.GREY, lw=0.8, ls="--")
    for row, (name, is_heading) in enumerate(names):
        if is_heading:
            colour = colours[name]
            continue
        for order, of_run in enumerate(changes):
            change = of_run.get(name)
            if change is None:
                continue
            if order:
                axes.plot(
                    [change.value], [row], color=colour, ls="none", marker="o", ms=2.6,
                    mfc="none", mew=0.6, alpha=0.5,
                )  # fmt: skip
            else:
                axes.plot([change.low, change.high], [row, row], color=colour, lw=1.4)
                axes.plot(
                    [change.value], [row], color=colour, marker="o", ms=3, ls="none", zorder=3
                )
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="x", color="0.92", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)


def _changes(result: EvaluatedConditions) -> dict[str, Interval | None]:
    return {entry.condition: entry.delta_nll for entry in result.conditions}


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
