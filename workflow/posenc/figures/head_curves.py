"""What position adds to the scores of each head by distance: measured, and in closed form."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import of_kind
from posenc.drawing.section import Figure, Style

COLUMNS, MORE, ROWS = 6, 8, 9
"""Layers side by side; ``MORE`` where there would be more than ``ROWS`` rows."""
INCHES = 1.1
"""Height of a row of panels, at most: a figure of few rows is lower than its section says."""
MEASURED, CLOSED = "measured", "closed form"


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the curves of all heads, a panel per layer, with the median R² over its heads.

    Parameters
    ----------
    measurements : list of dict
        Measurements of score_parts; of each model the first data set is shown.

    Returns
    -------
    A wide, pale line for the mean difference of a head's scores, and a thin one for the mask
    in closed form. Panels have scales of their own.
    """
    runs = of_kind(measurements, "score_parts")
    shown = {run["run"]["model"]: run for run in reversed(runs)}
    models = common.unique(run["run"]["model"] for run in runs)
    measured = [shown[model] for model in models if shown[model]["status"] == "measured"]
    if not measured:
        reasons = [run["reason"] for run in runs]
        common.not_run(canvas.add_subplot(), reasons or ["no scores were measured"], 60)
        return
    columns = (
        COLUMNS if sum(rows_of(measurement, COLUMNS) for measurement in measured) <= ROWS else MORE
    )
    rows = [rows_of(measurement, columns) for measurement in measured]
    canvas.set_figheight(min(figure.height, INCHES * (sum(rows) + len(rows) / 3 + 1)))
    # The title of a model takes as much room as a third of a row.
    parts = canvas.subfigures(len(rows), 1, squeeze=False, height_ratios=[n + 1 / 3 for n in rows])
    for part, measurement, count in zip(parts[:, 0], measured, rows, strict=True):
        _model(part, measurement, count, columns, style)
    canvas.supxlabel("distance back from query to key (tokens)", fontsize=style.font_size)
    canvas.supylabel("scores with position minus without (nats)", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes[:1], columns=2)


def rows_of(measurement: dict, columns: int) -> int:
    """Rows of panels that a model takes."""
    return math.ceil(measurement["n_layers"] / columns)


def _model(part: Canvas, measurement: dict, rows: int, columns: int, style: Style) -> None:
    run, r2, heads = measurement["run"], measurement["r2"], len(measurement["heads"])
    title = f"{common.display(run['model'])}, {common.display(run['dataset'])}"
    if r2["median"] is not None:
        title += f": median R² {r2['median']['value']:.3f} over {heads} heads"
    part.suptitle(title, fontsize=style.font_size, fontweight="bold")
    for layer in range(measurement["n_layers"]):
        axes = part.add_subplot(rows, columns, layer + 1)
        own = r2["layers"][layer]
        axes.set_title(
            f"layer {layer}" + (f", {own['value']:.2f}" if own else ""),
            fontsize=common.SMALLEST_POINTS,
            pad=1.5,
        )
        for head in measurement["heads"]:
            if head["layer"] == layer:
                _curves(axes, head, style.palette[head["head"] % len(style.palette)])
        axes.axhline(0, color="0.75", lw=0.4, zorder=0)
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
        axes.tick_params(labelsize=common.SMALLEST_POINTS, length=1.5, pad=1)
        if layer + columns < measurement["n_layers"]:
            axes.set_xticklabels([])
    if rows == 1:
        # Panels are as wide as those of the other models.
        for place in range(measurement["n_layers"], columns):
            part.add_subplot(rows, columns, place + 1).set_axis_off()


def _curves(axes: Axes, head: dict, colour: str) -> None:
    for key, label, look in (
        ("measured", MEASURED, {"lw": 2.2, "alpha": 0.35}),
        ("closed_form", CLOSED, {"lw": 0.6}),
    ):
        axes.plot(*line(head[key]), color=colour, label=label, **look)


def line(curves: dict) -> tuple[np.ndarray, np.ndarray]:
    """Distances and values of a head: the future, if it is seen, has negative distances."""
    past = np.array(curves["past"], float)  # [n]
    future = np.array(curves.get("future", [])[1:], float)  # [n - 1] or []
    distances = np.arange(-len(future), len(past))
    return distances, np.concatenate([future[::-1], past])


@common.slide(2.6, 2.0)
def for_slides(canvas: Canvas, measurements: list[dict], style: Style) -> None:
    """Draw the heads of the last model's middle layer."""
    axes = canvas.add_subplot()
    measured = [
        measurement
        for measurement in of_kind(measurements, "score_parts")
        if measurement["status"] == "measured"
    ]
    if not measured:
        axes.set_axis_off()
        return
    last = measured[-1]["run"]["model"]
    measurement = next(m for m in measured if m["run"]["model"] == last)
    for head in measurement["heads"]:
        if head["layer"] == measurement["n_layers"] // 2:
            _curves(axes, head, style.palette[head["head"] % len(style.palette)])
    axes.axhline(0, color="0.75", lw=0.6, zorder=0)


main = command(draw, Figure, for_slides=for_slides)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
