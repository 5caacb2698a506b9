"""Errors of linear position probes by layer: models with and without positions, and schemes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve, of_kind
from posenc.drawing.section import Figure, Style

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
    if not any(measurement["status"] == "measured" for measurement in measurements):
        reasons = [measurement["reason"] for measurement in measurements]
        common.not_run(canvas.add_subplot(), reasons or ["no measurement"], 60)
        return
    dataset = measurements[0]["run"]["dataset"]
    here = [measurement for measurement in measurements if measurement["run"]["dataset"] == dataset]
    panels = {kind: of_kind(here, kind) for kind in ("probes", "scheme_probes")}
    shown = {kind: runs for kind, runs in panels.items() if runs}
    absent: dict[str, str] = {}
    for place, (kind, runs) in enumerate(shown.items()):
        axes = canvas.add_subplot(1, len(shown), place + 1)
        absent |= {
            run["run"]["model"]: run["reason"] for run in runs if run["status"] != "measured"
        }
        measured = [measurement for measurement in runs if measurement["status"] == "measured"]
        if kind == "probes":
            axes.set_title(f"models, {common.display(dataset)}")
            entries = _models(axes, measured, style)
        else:
            axes.set_title(f"position schemes, {common.display(dataset)}")
            entries = _schemes(axes, measured, style)
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
    common.note_not_run(canvas, absent)


def _models(axes: Axes, measured: Sequence[dict], style: Style) -> dict[str, Line2D]:
    """Lines of each model under each condition; entries of the legend."""
    models = common.unique(measurement["run"]["model"] for measurement in measured)
    conditions = common.unique(measurement["run"]["condition"] for measurement in measured)
    colours = {m: style.palette[place % len(style.palette)] for place, m in enumerate(models)}
    looks = {c: LINES[place % len(LINES)] for place, c in enumerate(conditions)}
    for measurement in measured:
        model, _, condition = common.run_of(measurement)
        label = f"{common.display(model)}, {common.display(condition)}"
        _line(axes, measurement, color=colours[model], ls=looks[condition], label=label)
    entries = {common.display(m): Line2D([], [], color=colour) for m, colour in colours.items()}
    return entries | {
        common.display(c): Line2D([], [], color="k", lw=1.1, ls=look) for c, look in looks.items()
    }


def _schemes(axes: Axes, measured: Sequence[dict], style: Style) -> dict[str, Line2D]:
    """A line of each scheme; entries of the legend."""
    entries = {}
    for place, measurement in enumerate(measured):
        colour, name = style.palette[place % len(style.palette)], measurement["scheme"]
        label = NAMES.get(name, name)
        _line(axes, measurement, color=colour, ls="-", label=label)
        entries[label] = Line2D([], [], color=colour)
    return entries


def _line(axes: Axes, measurement: dict, **look) -> None:
    errors = [layer["position"]["ridge"] for layer in measurement["layers"]]
    curve(axes, [layer["layer"] for layer in measurement["layers"]], errors, lw=1.1, **look)
    axes.axhline(measurement["chance"]["position"]["value"], color=look["color"], **CHANCE)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
