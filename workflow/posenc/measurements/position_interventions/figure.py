"""What a model loses when position is taken from a layer's input, or put back there (C5)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import by_dataset, curve, nothing_is_lost, of_kind
from posenc.drawing.section import Figure, Style

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
    selected = of_kind(measurements, "position_interventions")
    measured = [measurement for measurement in selected if measurement["status"] == "measured"]
    if not measured:
        reasons = [measurement["reason"] for measurement in selected] or [
            "no layer was intervened on"
        ]
        common.not_run(canvas.add_subplot(), reasons, 60)
        return
    dataset, shown = next(iter(by_dataset(measured).items()))
    grid = canvas.subplots(len(WAYS), len(shown), sharey=True, sharex="col", squeeze=False)
    for column, measurement in enumerate(shown):
        for row, way in enumerate(WAYS):
            _panel(grid[row, column], measurement, way, style)
        kind = "loss" if measurement["is_causal"] else "distance"
        name = f"{common.display(measurement['run']['model'])} ({kind})"
        grid[0, column].set_title(common.title(canvas, name, len(shown) + 1))
        grid[-1, column].set_xlabel("layer")
    for row, label in enumerate(WAYS.values()):
        grid[row, 0].set_ylabel(label)
    canvas.supylabel("share of what is lost", fontsize=style.font_size)
    common.legend_above(canvas, grid.flat, columns=3)
    canvas.supxlabel(f"({common.display(dataset)})", fontsize=style.font_size)


def _panel(axes: Axes, measurement: dict, way: str, style: Style) -> None:
    axes.set_ylim(*LIMITS)
    for level in (0, 1):
        axes.axhline(level, color="0.75", lw=0.5, zorder=0)
    rows = [row for row in (*measurement["layers"], measurement["output"]) if way in row]
    step = 1 + measurement["n_layers"] // 6
    axes.set_xticks(
        [*range(0, measurement["n_layers"], step), measurement["n_layers"]],
        [*map(str, range(0, measurement["n_layers"], step)), "end"],
    )
    axes.margins(x=0.06)
    if measurement["without"]["share"] is None:
        nothing_is_lost(axes)
        return
    for place, (part, label) in enumerate(PARTS.items()):
        shares = [row[way][part]["share"] for row in rows]
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
