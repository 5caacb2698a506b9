"""Token cosine by layer between the intact model and those with changed position embeddings."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.conditions.groups import grouped
from posenc.conditions.positions import TABLE
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style


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
        (measurement["run"]["model"], measurement["run"]["dataset"]): measurement
        for measurement in evaluated.of_kind(measurements, "conditions")
        if measurement["positions"] == TABLE
    }
    names = {
        panel: grouped(
            {name: entry["spec"] for name, entry in evaluated.entries(measurement).items()},
            "positions",
        ).get("positions", [])
        for panel, measurement in panels.items()
        if measurement["status"] == "measured"
    }
    if not any(names.values()):
        reasons = [measurement["reason"] for measurement in panels.values()]
        common.not_run(
            canvas.add_subplot(),
            reasons if reasons and not names else ["the study changes no position embeddings"],
            60,
        )
        return
    looks = evaluated.series(common.unique(name for here in names.values() for name in here), style)
    grid = common.grid(canvas, list(panels))
    lowest = min(
        layer["low"]
        for panel, here in names.items()
        for name in here
        for layer in evaluated.entries(panels[panel])[name]["layers"]
    )
    for panel, measurement in panels.items():
        axes = grid[panel]
        if panel not in names:
            common.not_run(axes, [measurement["reason"]], 22)
            continue
        entries = evaluated.entries(measurement)
        for name in names[panel]:
            layers = entries[name]["layers"]
            evaluated.curve(
                axes, [layer["layer"] for layer in layers], layers,
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
