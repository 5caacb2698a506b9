"""Errors of linear position probes by layer: models with and without positions, and schemes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import Run, by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.probes.result import PositionProbes
from posenc.measurements.scheme_probes.result import SchemeProbes

NAMES = {"none": "no positions", "alibi": "ALiBi"}
LINES = ("-", (0, (3, 1.2)), ":", (0, (6, 1, 1, 1)))
CHANCE = {"lw": 0.7, "ls": (0, (1, 2.5)), "zorder": 0}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the error of the position on the first data set, in two panels.

    Parameters
    ----------
    measurements : list of dict
        Measurements ``probes`` and ``scheme_probes``.

    Returns
    -------
    Left, a colour for each model: solid as it is, broken under other conditions. Right, a colour
    for each position scheme. Lines of linear probes with their intervals; sparsely dotted the best
    constant. What was not run is said below.
    """
    probes = of_kind(measurements, "probes", PositionProbes)
    scheme_probes = of_kind(measurements, "scheme_probes", SchemeProbes)
    runs: list[Run[PositionProbes] | Run[SchemeProbes]] = [*probes, *scheme_probes]
    if not any(run.measured is not None for run in runs):
        reasons = [run.reason for run in runs]
        common.not_run(canvas.add_subplot(), reasons or ["no measurement"], 60)
        return
    dataset = runs[0].dataset
    models = by_dataset(probes).get(dataset, [])
    schemes = by_dataset(scheme_probes).get(dataset, [])
    panels = {"models": bool(models), "position schemes": bool(schemes)}
    titles = [title for title, is_shown in panels.items() if is_shown]
    for place, title in enumerate(titles):
        axes = canvas.add_subplot(1, len(titles), place + 1)
        axes.set_title(f"{title}, {common.display(dataset)}")
        if title == "models":
            entries = _models(axes, models, style)
        else:
            entries = _schemes(axes, schemes, style)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.04)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.set_xlabel("layer (0: embedding)")
        if place == 0:
            axes.set_ylabel("error of the position (tokens)")
            entries["best constant"] = Line2D([], [], color=common.GREY, **CHANCE)
        axes.legend(
            entries.values(), entries.keys(), loc="lower center", bbox_to_anchor=(0.5, 1.12),
            ncols=2, columnspacing=1.2,
        )  # fmt: skip
    common.note_not_run(
        canvas,
        {run.model: run.reason for run in runs if run.dataset == dataset and run.measured is None},
    )


def _models(axes: Axes, runs: Sequence[Run[PositionProbes]], style: Style) -> dict[str, Line2D]:
    """Lines of each model under each condition; entries of the legend."""
    measured = [run for run in runs if run.measured is not None]
    models = common.unique(run.model for run in measured)
    conditions = common.unique(run.condition for run in measured)
    colours = {m: style.palette[place % len(style.palette)] for place, m in enumerate(models)}
    looks = {c: LINES[place % len(LINES)] for place, c in enumerate(conditions)}
    for run in measured:
        label = f"{common.display(run.model)}, {common.display(run.condition)}"
        _line(axes, run.result, colours[run.model], ls=looks[run.condition], label=label)
    entries = {common.display(m): Line2D([], [], color=colour) for m, colour in colours.items()}
    return entries | {
        common.display(c): Line2D([], [], color="k", lw=1.1, ls=look) for c, look in looks.items()
    }


def _schemes(axes: Axes, runs: Sequence[Run[SchemeProbes]], style: Style) -> dict[str, Line2D]:
    """A line of each scheme; entries of the legend."""
    entries = {}
    for place, run in enumerate(run for run in runs if run.measured is not None):
        colour, name = style.palette[place % len(style.palette)], run.result.scheme
        label = NAMES.get(name, name)
        _line(axes, run.result, colour, ls="-", label=label)
        entries[label] = Line2D([], [], color=colour)
    return entries


def _line(axes: Axes, result: PositionProbes, colour: str, **look) -> None:
    errors = [layer.position.ridge for layer in result.layers]
    curve(axes, [layer.layer for layer in result.layers], errors, color=colour, lw=1.1, **look)
    axes.axhline(result.chance.position.value, color=colour, **CHANCE)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
