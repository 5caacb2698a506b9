"""How often token and position are read back from their sum, and how their subspaces lie."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.readback.result import Level, PairsReadBack

READ = ("token", "position", "both")
STAGES = ("before", "after")


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw accuracy against noise, two panels for each model, and principal angles of all.

    Parameters
    ----------
    measurements : list of dict
        Measurements of readback.

    Returns
    -------
    A column per model: lines with intervals for token, position and both, before layer
    normalisation (above, where dotted is what the nearest row of one table alone finds) and after
    it (below). A last panel with the angles between the two tables' leading directions, and those
    of random subspaces.
    """
    runs = of_kind(measurements, "readback", PairsReadBack)
    measured = common.measured(canvas, runs, "no sums were read back")
    if not measured:
        return
    columns = len(runs) + 1
    grid = canvas.add_gridspec(len(STAGES), columns)
    lowest: list[Axes] = []
    for column, run in enumerate(runs):
        title = common.title(canvas, run.model, columns + 2)
        if run.measured is None:
            axes = canvas.add_subplot(grid[:, column])
            axes.set_title(title)
            common.not_run(axes, [run.reason], 18)
            continue
        for row, stage in enumerate(STAGES):
            axes = canvas.add_subplot(grid[row, column])
            _accuracy(axes, run.result, stage, style)
            axes.tick_params(labelbottom=stage == STAGES[-1], labelleft=not lowest)
            if not lowest:
                axes.set_ylabel(f"read back\n{stage} layer norm")
            if row == 0:
                axes.set_title(title)
        lowest.append(axes)
    lowest[len(lowest) // 2].set_xlabel("noise (units of root mean square entry)")
    _angles(canvas.add_subplot(grid[:, -1]), measured, style)
    common.legend_above(canvas, canvas.axes, columns=4)


def _accuracy(axes: Axes, result: PairsReadBack, stage: str, style: Style) -> None:
    entries: list[Level] = getattr(result, stage)
    levels = [entry.noise for entry in entries]
    for name, colour in zip(READ, style.palette, strict=False):
        estimates = [getattr(entry.joint, name) for entry in entries]
        curve(axes, levels, estimates, color=colour, lw=1.1, label=name)
        if name != "both" and stage == "before":
            alone = [getattr(entry.alone, name).value for entry in entries]
            axes.plot(levels, alone, color=colour, ls=":", lw=0.9, label=f"{name}, of one table")
    positive = sorted(level for level in levels if level > 0)
    if positive:
        axes.set_xscale("symlog", base=2, linthresh=positive[0])
        shown = [0.0, *positive[:: max(1, len(positive) // 2)]]
        axes.set_xticks(shown, [f"{level:g}" for level in shown])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.04, 1.04)


def _angles(axes: Axes, runs: list[Run[PairsReadBack]], style: Style) -> None:
    """Angles in degrees by rank, as a share of how many there are: models have other dimensions."""
    for index, run in enumerate(runs):
        spaces = run.result.subspaces
        colour = style.palette[(len(READ) + index) % len(style.palette)]
        count = len(spaces.angles)
        ranks = [(rank + 0.5) / count for rank in range(count)]
        angles, random = (
            [math.degrees(value) for value in radians] for radians in (spaces.angles, spaces.random)
        )
        axes.plot(ranks, random, color=colour, ls="--", lw=0.9)
        axes.plot(
            ranks, angles, color=colour, lw=1.3, label=f"angles, {common.display(run.model)}",
        )  # fmt: skip
    axes.plot([], [], color=common.GREY, ls="--", lw=0.9, label="random subspaces")
    axes.set_title("principal angles")
    axes.set_xlabel("rank (share)")
    axes.set_ylabel("degrees")
    axes.set_ylim(0, 93)
    axes.set_yticks([0, 30, 60, 90])
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
