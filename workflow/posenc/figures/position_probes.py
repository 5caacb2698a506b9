"""Errors of position probes by layer, for each model, data set, condition and scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from posenc.figures import common
from posenc.figures.evaluated import curve
from posenc.figures.section import Figure, Style

QUANTITIES = {"position": "error\n(tokens)", "order": "order\nerror"}
LINEAR = {"position": "ridge", "order": "logistic"}
SCHEMES = "schemes"
NAMES = {"none": "no positions", "alibi": "ALiBi"}
RELU = (0, (3, 1.2))
CONTROL = {"color": "0.6", "lw": 0.7, "ls": "-"}
CHANCE = {"color": "0.6", "lw": 0.9, "ls": ":"}


@dataclass(frozen=True)
class Line:
    """What a panel shows of one measurement."""

    label: str
    colour: str
    measurement: dict


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw small multiples: a column for each model and one for all schemes, two rows per data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements ``probes`` and ``scheme_probes``.

    Returns
    -------
    Lines with their intervals: linear probes solid, ReLU probes dashed; in grey the linear
    probe of shuffled labels, and chance.
    """
    if not any(one["status"] == "measured" for one in measurements):
        reasons = [one["reason"] for one in measurements]
        common.not_run(made.add_subplot(), reasons or ["no measurement"], 60)
        return
    panels = panels_of(measurements, style)
    datasets = common.unique(dataset for _, dataset in panels)
    columns = common.unique(column for column, _ in panels)
    # Rows are low: titles of one line, where they fit.
    joint, size = ", ", style.font_size
    if len(columns) > 3:
        joint, size = "\n", max(common.SMALLEST_POINTS, size - 1)
    rows = [(dataset, quantity) for dataset in datasets for quantity in QUANTITIES]
    for row, (dataset, quantity) in enumerate(rows):
        for place, column in enumerate(columns):
            lines = panels.get((column, dataset))
            if lines is None:
                continue
            number = row * len(columns) + place + 1
            axes = made.add_subplot(len(rows), len(columns), number)
            if quantity == "position":
                axes.set_title(joint.join(map(common.display, (column, dataset))), fontsize=size)
            _panel(axes, lines, quantity)
            axes.tick_params(labelbottom=row == len(rows) - 1)
            if common.is_left(axes):
                axes.set_ylabel(QUANTITIES[quantity])
    made.align_ylabels()
    made.supxlabel("layer (0: embedding)", fontsize=style.font_size)
    _legend(made, [line for lines in panels.values() for line in lines])


def panels_of(measurements: Sequence[dict], style: Style) -> dict[tuple[str, str], list[Line]]:
    """The lines of each panel, by column and data set."""
    found: dict[tuple[str, str], list[Line]] = {}
    runs = [one for one in measurements if one["measurement"] == "probes"]
    schemes = [one for one in measurements if one["measurement"] == "scheme_probes"]
    conditions = common.condition_colours(runs, style)
    # The first colour is that of a condition.
    others = style.palette[1:]
    names = common.unique(one["scheme"] for one in schemes)
    colours = {name: others[index % len(others)] for index, name in enumerate(names)}
    for one in runs:
        model, dataset, condition = common.run_of(one)
        line = Line(common.display(condition), conditions[condition], one)
        found.setdefault((model, dataset), []).append(line)
    for one in schemes:
        line = Line(NAMES.get(one["scheme"], one["scheme"]), colours[one["scheme"]], one)
        found.setdefault((SCHEMES, one["run"]["dataset"]), []).append(line)
    return found


def _panel(axes: Axes, lines: list[Line], quantity: str) -> None:
    measured = [line for line in lines if line.measurement["status"] == "measured"]
    if not measured:
        common.not_run(axes, [line.measurement["reason"] for line in lines], 18)
        return
    for line in measured:
        layers = line.measurement["layers"]
        places = [layer["layer"] for layer in layers]
        for probe, look in ((LINEAR[quantity], "-"), ("relu", RELU)):
            curve(
                axes, places, [layer[quantity][probe] for layer in layers],
                color=line.colour, ls=look, lw=1.1, label=f"{line.label}, {probe}",
            )  # fmt: skip
        control = [layer[quantity][f"{LINEAR[quantity]}_control"]["value"] for layer in layers]
        axes.plot(places, control, zorder=0, label="shuffled labels", **CONTROL)
        chance = line.measurement["chance"][quantity]
        level = chance["value"] if quantity == "position" else chance
        axes.axhline(level, zorder=0, **CHANCE)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.04)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(3))


def _legend(made: Canvas, lines: list[Line]) -> None:
    entries = {line.label: Line2D([], [], color=line.colour) for line in lines}
    entries |= {
        "linear probe": Line2D([], [], color="k", lw=1.1),
        "ReLU probe": Line2D([], [], color="k", lw=1.1, ls=RELU),
        "shuffled labels": Line2D([], [], **CONTROL),
        "chance": Line2D([], [], **CHANCE),
    }
    made.legend(
        list(entries.values()), list(entries), loc="outside upper center", ncols=6,
        borderaxespad=0.2, columnspacing=1.2,
    )  # fmt: skip


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
