"""Token cosine by layer between the intact model and what position embeddings were made into."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.conditions.groups import grouped
from posenc.conditions.positions import TABLE
from posenc.drawing import common, evaluated
from posenc.drawing.section import Figure, Style


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
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
        (one["run"]["model"], one["run"]["dataset"]): one
        for one in evaluated.of_kind(measurements, "conditions")
        if one["positions"] == TABLE
    }
    names = {
        panel: grouped(
            {name: entry["spec"] for name, entry in evaluated.entries(one).items()},
            "positions",
        ).get("positions", [])
        for panel, one in panels.items()
        if one["status"] == "measured"
    }
    if not any(names.values()):
        reasons = [one["reason"] for one in panels.values()]
        common.not_run(
            made.add_subplot(),
            reasons if reasons and not names else ["the study changes no position embeddings"],
            60,
        )
        return
    looks = evaluated.series(common.unique(name for here in names.values() for name in here), style)
    grid = common.grid(made, list(panels))
    lowest = min(
        layer["low"]
        for panel, here in names.items()
        for name in here
        for layer in evaluated.entries(panels[panel])[name]["layers"]
    )
    for panel, one in panels.items():
        axes = grid[panel]
        if panel not in names:
            common.not_run(axes, [one["reason"]], 22)
            continue
        found = evaluated.entries(one)
        for name in names[panel]:
            layers = found[name]["layers"]
            evaluated.curve(
                axes, [layer["layer"] for layer in layers], layers,
                label=common.display(name), **looks[name],
            )  # fmt: skip
        axes.set_ylim(lowest - 0.04, 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.tick_params(labelleft=common.is_left(axes))
        axes.margins(x=0.04)
    made.supylabel("mean token cosine", fontsize=style.font_size)
    made.supxlabel("layer (0: embedding)", fontsize=style.font_size)
    common.legend_above(made, grid.values(), columns=4)


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
