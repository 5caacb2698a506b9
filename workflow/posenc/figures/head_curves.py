"""What position adds to the scores of each head by distance: measured, and in closed form."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.score_parts.result import Curves, Decomposition, Head

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
    runs = of_kind(measurements, "score_parts", Decomposition)
    shown = {run.model: run for run in reversed(runs)}
    models = common.unique(run.model for run in runs)
    measured = [shown[model] for model in models if shown[model].measured is not None]
    if not measured:
        reasons = [run.reason for run in runs]
        common.not_run(canvas.add_subplot(), reasons or ["no scores were measured"], 60)
        return
    columns = COLUMNS if sum(rows_of(run.result, COLUMNS) for run in measured) <= ROWS else MORE
    rows = [rows_of(run.result, columns) for run in measured]
    canvas.set_figheight(min(figure.height, INCHES * (sum(rows) + len(rows) / 3 + 1)))
    # The title of a model takes as much room as a third of a row.
    parts = canvas.subfigures(len(rows), 1, squeeze=False, height_ratios=[n + 1 / 3 for n in rows])
    for part, run, count in zip(parts[:, 0], measured, rows, strict=True):
        _model(part, run, count, columns, style)
    canvas.supxlabel("distance back from query to key (tokens)", fontsize=style.font_size)
    canvas.supylabel("scores with position minus without (nats)", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes[:1], columns=2)


def rows_of(result: Decomposition, columns: int) -> int:
    """Rows of panels that a model takes."""
    return math.ceil(result.n_layers / columns)


def _model(part: SubFigure, run: Run[Decomposition], rows: int, columns: int, style: Style) -> None:
    result, r2 = run.result, run.result.r2
    title = f"{common.display(run.model)}, {common.display(run.dataset)}"
    if r2.median is not None:
        title += f": median R² {r2.median.value:.3f} over {len(result.heads)} heads"
    part.suptitle(title, fontsize=style.font_size, fontweight="bold")
    for layer in range(result.n_layers):
        axes = part.add_subplot(rows, columns, layer + 1)
        own = r2.layers[layer]
        axes.set_title(
            f"layer {layer}" + (f", {own.value:.2f}" if own else ""),
            fontsize=common.SMALLEST_POINTS,
            pad=1.5,
        )
        for head in result.heads:
            if head.layer == layer:
                _curves(axes, head, style.palette[head.head % len(style.palette)])
        axes.axhline(0, color="0.75", lw=0.4, zorder=0)
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
        axes.tick_params(labelsize=common.SMALLEST_POINTS, length=1.5, pad=1)
        if layer + columns < result.n_layers:
            axes.set_xticklabels([])
    if rows == 1:
        # Panels are as wide as those of the other models.
        for place in range(result.n_layers, columns):
            part.add_subplot(rows, columns, place + 1).set_axis_off()


def _curves(axes: Axes, head: Head, colour: str) -> None:
    for curves, label, look in (
        (head.measured, MEASURED, {"lw": 2.2, "alpha": 0.35}),
        (head.closed_form, CLOSED, {"lw": 0.6}),
    ):
        axes.plot(*line(curves), color=colour, label=label, **look)


def line(curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Distances and values of a head: the future, if it is seen, has negative distances."""
    past = np.array(curves.past, float)  # [n]
    future = np.array((curves.future or [])[1:], float)  # [n - 1] or []
    distances = np.arange(-len(future), len(past))
    return distances, np.concatenate([future[::-1], past])


@common.slide(2.6, 2.0)
def for_slides(canvas: Canvas, measurements: list[dict], style: Style) -> None:
    """Draw the heads of the last model's middle layer."""
    axes = canvas.add_subplot()
    runs = of_kind(measurements, "score_parts", Decomposition)
    measured = [run for run in runs if run.measured is not None]
    if not measured:
        axes.set_axis_off()
        return
    result = next(run.result for run in measured if run.model == measured[-1].model)
    for head in result.heads:
        if head.layer == result.n_layers // 2:
            _curves(axes, head, style.palette[head.head % len(style.palette)])
    axes.axhline(0, color="0.75", lw=0.6, zorder=0)


main = command(draw, Figure, for_slides=for_slides)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
