"""Perplexity of masked conditions against a parameter of the mask: its slope, its floor."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import Run, by_dataset, of_kind
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.figures import conditions
from posenc.measurements.conditions.result import EvaluatedConditions, PairedLosses
from posenc.measurements.reference.result import ReferenceLevels

LEVELS = {"Kneser-Ney bigram": ":", "Kneser-Ney trigram": "-."}
"""Dashes of the reference levels that are drawn."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw perplexity against each swept parameter of a mask, a row for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions and of reference levels.

    Returns
    -------
    A line for each condition of the first decoder, thin ones for the others; the intact model,
    the one without positions and the n-gram models as levels.
    """
    measured, reasons = conditions.decoders(measurements)
    sweeps = _sweeps(measured)
    if not sweeps:
        reasons = reasons if not measured else ["the study has no sweep of a mask's parameter"]
        common.not_run(canvas.add_subplot(), reasons or ["the study has no runs"], 60)
        return
    looks = evaluated.series(
        common.unique(
            row.condition
            for run in measured
            for name in sweeps
            for row in run.result.sweeps[name].rows
        ),
        style,
    )
    panels = by_dataset(measured)
    references = of_kind(measurements, "reference", ReferenceLevels)
    for line, (dataset, runs) in enumerate(panels.items()):
        levels = _levels(runs[0], references)
        values = list(levels.values())
        for run in runs:
            values += [
                _perplexity(row).value for name in sweeps for row in run.result.sweeps[name].rows
            ]
        for column, name in enumerate(sweeps):
            place = line * len(sweeps) + column + 1
            axes = canvas.add_subplot(len(panels), len(sweeps), place)
            _draw_panel(axes, runs, name, looks)
            _draw_levels(axes, levels)
            evaluated.logarithmic_perplexity(axes, values)
            if column == 0:
                axes.set_ylabel(f"{common.display(dataset)}\nperplexity")
            else:
                axes.tick_params(labelleft=False)
            if line == len(panels) - 1:
                axes.set_xlabel(common.display(measured[0].result.sweeps[name].key.split(".")[-1]))
    common.legend_above(canvas, canvas.axes, columns=4)


def _sweeps(measured: list[Run[EvaluatedConditions]]) -> list[str]:
    """Names of the sweeps of a mask's parameter."""
    if not measured:
        return []
    sweeps = measured[0].result.sweeps.items()
    return [name for name, sweep in sweeps if sweep.key != "tokens" and sweep.rows]


def _perplexity(losses: PairedLosses) -> Interval:
    assert losses.perplexity is not None, "that of an encoder"
    return losses.perplexity


def _levels(
    run: Run[EvaluatedConditions], references: list[Run[ReferenceLevels]]
) -> dict[str, float]:
    entries = conditions.entries(run)
    levels = {
        name: _perplexity(entries[name]).value
        for name in (common.INTACT, "zero")
        if name in entries
    }
    for reference in references:
        is_of_run = (reference.model, reference.dataset) == (run.model, run.dataset)
        if reference.measured is not None and is_of_run:
            levels |= {
                level.level: level.perplexity.value
                for level in reference.result.levels
                if level.level in LEVELS
            }
    return levels


def _draw_levels(axes: Axes, levels: dict[str, float]) -> None:
    dashes = {common.INTACT: "-", "zero": "--", **LEVELS}
    for name, value in levels.items():
        axes.axhline(
            value, color=common.GREY, lw=1, ls=dashes[name], label=common.display(name), zorder=1
        )


def _draw_panel(
    axes: Axes, runs: list[Run[EvaluatedConditions]], name: str, looks: dict[str, dict]
) -> None:
    for order, run in enumerate(runs):
        swept = run.result.sweeps[name].rows
        for condition in common.unique(row.condition for row in swept):
            points = [row for row in swept if row.condition == condition]
            xs = [row.value for row in points]
            if min(xs) > 0:
                axes.set_xscale("log")
            look = looks[condition]
            if order:
                axes.plot(
                    xs, [_perplexity(row).value for row in points], color=look["color"],
                    ls=look["ls"], lw=0.6, alpha=0.5, zorder=1,
                )  # fmt: skip
            else:
                evaluated.curve(
                    axes, xs, [_perplexity(row) for row in points],
                    label=common.display(condition), **look,
                )  # fmt: skip
    values = common.unique(row.value for row in runs[0].result.sweeps[name].rows)
    ticks = values
    if len(values) > 8 and min(values) > 0:
        ticks = common.logarithmic_ticks(min(values), max(values), 6)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
