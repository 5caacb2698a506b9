"""Copying of repeated random tokens, and the heads that do it, by condition."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import by_dataset, entries, label_rows, of_kind
from posenc.drawing.section import Figure, Style

PANELS = {
    "gain": ("gain where a\ntoken occurs again", "nats"),
    "previous": ("attention to the\nprevious token", "share of attention"),
    "induction": ("attention to the token\nafter the earlier one", "share of attention"),
}
"""Title of each panel, and what its axis counts."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw what is copied and where heads look, for the model that copies most.

    Parameters
    ----------
    measurements : list of dict
        Measurements of induction.

    Returns
    -------
    A row for each condition, a mark with its interval for each data set whose tokens the random
    sequences are made of. A dashed line is a head that attends to all keys alike.
    """
    measured = common.measured(
        canvas, of_kind(measurements, "induction"), "no tokens were repeated"
    )
    if not measured:
        return
    best = max(
        measured, key=lambda measurement: entries(measurement)[common.INTACT]["gain"]["value"]
    )
    model = best["run"]["model"]
    runs = [measurement for measurement in measured if measurement["run"]["model"] == model]
    names = [entry["condition"] for entry in best["conditions"]]
    panels = canvas.subplots(1, len(PANELS), sharey=True)
    for axes, (part, (title, unit)) in zip(panels, PANELS.items(), strict=True):
        axes.set_title(title)
        axes.set_xlabel(unit)
        _draw_panel(axes, runs, names, part, style)
    label_rows(panels[0], [(name, False) for name in names])
    common.legend_above(canvas, panels, columns=len(runs) + 1)


def _draw_panel(axes: Axes, runs: list[dict], names: list[str], part: str, style: Style) -> None:
    axes.axvline(0, color=common.GREY, lw=0.7)
    for place, (dataset, (run, *_)) in enumerate(by_dataset(runs).items()):
        shift = 0.16 * (2 * place - len(runs) + 1)
        colour = style.palette[place % len(style.palette)]
        marked = [
            (row + shift, entries(run)[name][part])
            for row, name in enumerate(names)
            if entries(run)[name][part] is not None
        ]
        for height, estimate in marked:
            axes.plot([estimate["low"], estimate["high"]], [height, height], color=colour, lw=1)
        axes.plot(
            [estimate["value"] for _, estimate in marked], [height for height, _ in marked],
            marker=common.MARKERS[place], ls="none", ms=3, color=colour,
            label=f"{common.display(run['run']['model'])}, {common.display(dataset)}",
        )  # fmt: skip
    if part in runs[0]["uniform"]:
        axes.axvline(
            runs[0]["uniform"][part], color=common.GREY, lw=0.7, ls="--", label="all keys alike"
        )
        axes.set_xlim(-0.02, 1.02)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
