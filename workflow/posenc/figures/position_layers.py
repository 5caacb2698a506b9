"""Token cosine by layer between the intact model and those with changed position embeddings."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import of_kind
from posenc.conditions.groups import grouped
from posenc.conditions.positions import TABLE
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.figures.conditions import entries
from posenc.measurements.conditions.result import EvaluatedConditions


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw small multiples, model by data set: the mean token cosine of each layer.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions; those of rotary models are left out.

    Returns
    -------
    A line with its interval for each condition that changes positions and nothing else.
    """
    panels = {
        (run.model, run.dataset): run
        for run in of_kind(measurements, "conditions", EvaluatedConditions)
        if run.measured is None or run.measured.positions == TABLE
    }
    evaluations = {panel: entries(run) for panel, run in panels.items() if run.measured is not None}
    names = {
        panel: grouped(
            {name: entry.spec for name, entry in by_name.items()},
            "positions",
        ).get("positions", [])
        for panel, by_name in evaluations.items()
    }
    if not any(names.values()):
        reasons = [run.reason for run in panels.values()]
        common.not_run(
            canvas.add_subplot(),
            reasons if reasons and not names else ["the study changes no position embeddings"],
            60,
        )
        return
    looks = evaluated.series(common.unique(name for here in names.values() for name in here), style)
    grid = common.grid(canvas, list(panels))
    lowest = min(
        layer.low
        for panel, here in names.items()
        for name in here
        for layer in evaluations[panel][name].layers
    )
    for panel, run in panels.items():
        axes = grid[panel]
        if panel not in names:
            common.not_run(axes, [run.reason], 22)
            continue
        for name in names[panel]:
            layers = evaluations[panel][name].layers
            evaluated.curve(
                axes, [layer.layer for layer in layers], layers,
                label=common.display(name), **looks[name],
            )  # fmt: skip
        axes.set_ylim(lowest - 0.04, 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.tick_params(labelleft=common.is_left(axes))
        axes.margins(x=0.04)
    canvas.supylabel("mean token cosine", fontsize=style.font_size)
    canvas.supxlabel("layer (0: embedding)", fontsize=style.font_size)
    common.legend_above(canvas, grid.values(), columns=4)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
