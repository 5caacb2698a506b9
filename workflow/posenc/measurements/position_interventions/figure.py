"""What a model loses when position is taken from a layer's input, or put back there (C5)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve, nothing_is_lost
from posenc.drawing.section import Figure, Style
from posenc.measurements.position_interventions.result import PositionInterventions

WAYS = {
    "removed": "removed\nfrom here on",
    "injected": "injected\nfrom here on",
    "withheld": "withheld\nfrom this layer",
}
PARTS = {
    "own": "each position's own mean",
    "permuted": "the mean of another position",
    "offset": "the mean over positions",
}
LIMITS = (-0.25, 2.0)
"""Of the shares that are shown: 0 is the intact model, 1 the one without positions."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw what is lost when position is removed, injected and withheld, by model and layer.

    Parameters
    ----------
    measurements : list of dict
        Measurements of position interventions.

    Returns
    -------
    On the headline data set, a column for each model that was measured and a row for each
    intervention: the share, by layer, of what is lost without positions, nats of a decoder and the
    distance of last states of an encoder. At the end stand the last states themselves. Shares
    beyond ``LIMITS`` are not shown.
    """
    runs = common.measured(
        canvas,
        of_kind(measurements, "position_interventions", PositionInterventions),
        "no layer was intervened on",
    )
    if not runs:
        return
    dataset, shown = next(iter(by_dataset(runs).items()))
    grid = canvas.subplots(len(WAYS), len(shown), sharey=True, sharex="col", squeeze=False)
    for column, run in enumerate(shown):
        for row, way in enumerate(WAYS):
            _panel(grid[row, column], run.result, way, style)
        kind = "loss" if run.result.is_causal else "distance"
        name = f"{common.display(run.model)} ({kind})"
        grid[0, column].set_title(common.title(canvas, name, len(shown) + 1))
        grid[-1, column].set_xlabel("layer")
    for row, label in enumerate(WAYS.values()):
        grid[row, 0].set_ylabel(label)
    canvas.supylabel("share of what is lost", fontsize=style.font_size)
    common.legend_above(canvas, grid.flat, columns=3)
    canvas.supxlabel(f"({common.display(dataset)})", fontsize=style.font_size)


def _panel(axes: Axes, result: PositionInterventions, way: str, style: Style) -> None:
    axes.set_ylim(*LIMITS)
    for level in (0, 1):
        axes.axhline(level, color="0.75", lw=0.5, zorder=0)
    rows = [row for row in (*result.layers, result.output) if hasattr(row, way)]
    step = 1 + result.n_layers // 6
    axes.set_xticks(
        [*range(0, result.n_layers, step), result.n_layers],
        [*map(str, range(0, result.n_layers, step)), "end"],
    )
    axes.margins(x=0.06)
    if result.without.share is None:
        nothing_is_lost(axes)
        return
    for place, (part, label) in enumerate(PARTS.items()):
        shares = [getattr(getattr(row, way), part).share for row in rows]
        own = part == "own"
        curve(
            axes, range(len(rows)), shares, color=common.GREY if own else style.palette[place + 2],
            marker=common.MARKERS[place], ms=3, lw=1.2 if own else 0.9, ls="-" if own else "--",
            mfc=None if own else "white", label=label,
        )  # fmt: skip


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
