"""Perplexity against the length that documents are cut to."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import by_dataset
from posenc.conditions.groups import MASKED, grouped
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.figures.conditions import decoders, entries
from posenc.measurements.conditions.result import EvaluatedConditions, SweepPoint

ENDS = (common.INTACT, "zero")
"""Conditions that masks are compared with."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw perplexity against the length of documents, a row of two panels for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions.

    Returns
    -------
    A line with its interval for each condition of the first decoder: on the left the conditions
    of positions, on the right the masks, beside the intact model and the one without positions.
    """
    measured, reasons = decoders(measurements)
    swept = {
        dataset: rows
        for dataset, runs in by_dataset(measured).items()
        for rows in [_rows(runs[0].result)]
        if rows
    }
    if not swept:
        reasons = reasons if not measured else ["the study has no sweep of the length"]
        common.not_run(canvas.add_subplot(), reasons or ["the study has no runs"], 60)
        return
    looks = evaluated.series(
        common.unique(row.condition for rows in swept.values() for row in rows), style
    )
    specs = {name: entry.spec for name, entry in entries(measured[0]).items()}
    masks = {name for names in grouped(specs, *MASKED).values() for name in names}
    panels = canvas.subplots(len(swept), 2, squeeze=False, sharex=True, sharey="row")
    for (left, right), (dataset, rows) in zip(panels, swept.items(), strict=True):
        left.set_title(f"{common.display(measured[0].model)}, {common.display(dataset)}")
        _draw_panel(left, [row for row in rows if row.condition not in masks], looks)
        _draw_panel(right, [row for row in rows if row.condition in {*ENDS, *masks}], looks)
        ends = [end for row in rows for end in (_perplexity(row).low, _perplexity(row).high)]
        evaluated.logarithmic_perplexity(left, ends)
        left.set_ylabel("perplexity")
    canvas.supxlabel("length that documents are cut to (tokens)", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=4)


def _draw_panel(axes: Axes, rows: list[SweepPoint], looks: dict[str, dict]) -> None:
    for condition in common.unique(row.condition for row in rows):
        points = [row for row in rows if row.condition == condition]
        evaluated.curve(
            axes, [row.value for row in points], [_perplexity(row) for row in points],
            label=common.display(condition), **looks[condition],
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    values = common.unique(row.value for row in rows)
    axes.set_xticks(values, [common.plain_number(value) for value in values])
    axes.grid(axis="y", color="0.92", lw=0.6)
    axes.set_axisbelow(True)


def _rows(result: EvaluatedConditions) -> list[SweepPoint]:
    return [row for sweep in result.sweeps.values() if sweep.key == "tokens" for row in sweep.rows]


def _perplexity(row: SweepPoint) -> Interval:
    assert row.perplexity is not None, "encoders are left out"
    return row.perplexity


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
