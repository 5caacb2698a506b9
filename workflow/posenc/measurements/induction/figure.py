"""Copying of repeated random tokens, and the heads that do it, by condition."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import Run, by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import label_rows
from posenc.drawing.section import Figure, Style
from posenc.measurements.induction.result import Copying, Repetition

PANELS = {
    "gain": ("gain where a\ntoken occurs again", "nats"),
    "previous": ("attention to the\nprevious token", "share of attention"),
    "induction": ("attention to the token\nafter the earlier one", "share of attention"),
}
"""Title of each panel, and what its axis counts."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw what is copied and where heads look, for the model that copies most.

    Parameters
    ----------
    measurements : list of dict
        Measurements of induction.

    Returns
    -------
    A row for each condition, a mark with its interval for each data set whose tokens the random
    sequences are made of. A dashed line is a head that attends to all keys alike.
    """
    measured = common.measured(
        canvas, of_kind(measurements, "induction", Repetition), "no tokens were repeated"
    )
    if measured:
        draw_runs(canvas, measured, style)


def draw_runs(canvas: Canvas, measured: list[Run[Repetition]], style: Style) -> None:
    """Draw measured runs, or what a record has of them."""
    best = max(measured, key=lambda run: entries(run.result)[common.INTACT].gain.value)
    runs = [run for run in measured if run.model == best.model]
    names = [entry.condition for entry in best.result.conditions]
    panels = canvas.subplots(1, len(PANELS), sharey=True)
    for axes, (part, (title, unit)) in zip(panels, PANELS.items(), strict=True):
        axes.set_title(title)
        axes.set_xlabel(unit)
        _draw_panel(axes, runs, names, part, style)
    label_rows(panels[0], [(name, False) for name in names])
    common.legend_above(canvas, panels, columns=len(runs) + 1)


def entries(result: Repetition) -> dict[str, Copying]:
    """What was measured of each condition, by its name."""
    return {entry.condition: entry for entry in result.conditions}


def _draw_panel(
    axes: Axes, runs: list[Run[Repetition]], names: list[str], part: str, style: Style
) -> None:
    axes.axvline(0, color=common.GREY, lw=0.7)
    for place, (dataset, (run, *_)) in enumerate(by_dataset(runs).items()):
        shift = 0.16 * (2 * place - len(runs) + 1)
        colour = style.palette[place % len(style.palette)]
        shown = entries(run.result)
        marked = [
            (row + shift, getattr(shown[name], part))
            for row, name in enumerate(names)
            if getattr(shown[name], part) is not None
        ]
        for height, estimate in marked:
            axes.plot([estimate.low, estimate.high], [height, height], color=colour, lw=1)
        axes.plot(
            [estimate.value for _, estimate in marked], [height for height, _ in marked],
            marker=common.MARKERS[place], ls="none", ms=3, color=colour,
            label=f"{common.display(run.model)}, {common.display(dataset)}",
        )  # fmt: skip
    uniform = getattr(runs[0].result.uniform, part, None)
    if uniform is not None:
        axes.axvline(uniform, color=common.GREY, lw=0.7, ls="--", label="all keys alike")
        axes.set_xlim(-0.02, 1.02)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
