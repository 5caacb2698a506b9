"""How well a linear model reads position off position embeddings, and off random vectors."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.position_embeddings.result import OverRepeats, PositionTable

KINDS = {"absolute": "mean error\n(positions)", "relative": "pairs mistaken\n(%)"}
SERIES = {"table": "position embeddings", "control": "random, same shape and deviation"}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the errors of both regressions for each table, beside those of random tables.

    Parameters
    ----------
    measurements : list of dict
        Measurements of position embeddings, in order.

    Returns
    -------
    A row for each table: means over repeats, and their standard deviation as a bar.
    """
    measured = common.measured(
        canvas,
        of_kind(measurements, "position_embeddings", PositionTable),
        "the study has no position embeddings",
        36,
    )
    if not measured:
        return
    panels = dict(zip(KINDS, canvas.subplots(1, len(KINDS), sharey=True), strict=True))
    for kind, axes in panels.items():
        for name, label in SERIES.items():
            _points(axes, measured, kind, name, label, style)
        axes.set_xlabel(KINDS[kind])
        for row in range(len(measured)):
            axes.axhline(row, color="0.93", lw=0.5, zorder=0)
        axes.tick_params(axis="y", length=0)
    left, right = panels.values()
    left.set_yticks(range(len(measured)), [common.display(run.model) for run in measured])
    left.set_ylim(len(measured) - 0.5, -0.5)
    _counts(left, measured)
    right.set_xlim(left=0)
    right.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    common.legend_above(canvas, panels.values(), columns=1)


def _points(
    axes: Axes, measured: list[Run[PositionTable]], kind: str, name: str, label: str, style: Style
) -> None:
    is_table = name == "table"
    regressions = [run.result.regression for run in measured]
    errors: list[OverRepeats] = [
        getattr(regression if is_table else regression.control, kind) for regression in regressions
    ]
    # Beside each other, where both are the same.
    shift = -0.12 if is_table else 0.12
    axes.errorbar(
        [error.mean for error in errors], [row + shift for row in range(len(errors))],
        xerr=[error.sd for error in errors], fmt="o" if is_table else "D", ls="none", ms=4,
        mfc=style.palette[0] if is_table else "white",
        color=style.palette[0] if is_table else common.GREY, elinewidth=0.9, label=label,
    )  # fmt: skip


def _counts(axes: Axes, measured: list[Run[PositionTable]]) -> None:
    """Scale the axis from an error of 0 over several powers of ten."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    regressions = [run.result.regression for run in measured]
    most = max(max(of.absolute.mean, of.control.absolute.mean) for of in regressions)
    axes.set_xlim(-0.25, 2.5 * max(most, 10))
    axes.xaxis.set_major_locator(FixedLocator([0, 1, 10, 100, 1000]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
