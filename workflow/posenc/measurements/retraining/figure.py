"""Loss by training tokens of a decoder that is trained on under several conditions."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, NullLocator

from posenc.artifacts.runs import by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve, series
from posenc.drawing.section import Figure, Style
from posenc.measurements.retraining.result import Retrained

LABELS = {"nll": "loss (nats per token)", "above_intact": "loss above the intact model's"}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw loss against training tokens, of the first model, a row per data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of models that are trained on.

    Returns
    -------
    Left: a line for each condition. Right: what it has above the intact model that was trained in
    as many steps. Dotted: the loss that a start has before it is trained, as far as the model
    without rotation needs to reach it.
    """
    runs = common.measured(
        canvas,
        of_kind(measurements, "retraining", Retrained),
        "no model was trained on without rotation",
    )
    if not runs:
        return
    rows = by_dataset(runs)
    panels = canvas.subplots(len(rows), 2, squeeze=False)
    for row, (dataset, (run, *_)) in zip(panels, rows.items(), strict=True):
        for axes, part in zip(row, LABELS, strict=True):
            _curves(axes, run.result, part, style)
            axes.set_title(common.title(canvas, dataset, len(LABELS)))
    common.legend_above(canvas, panels.flat, columns=4)
    model = common.display(runs[0].model)
    canvas.supxlabel(f"training tokens ({model})", fontsize=style.font_size)


def _curves(axes: Axes, result: Retrained, part: str, style: Style) -> None:
    looks = series([entry.condition for entry in result.conditions], style)
    for entry in result.conditions:
        rows = [row for row in entry.curve if getattr(row, part) is not None]
        tokens = [row.tokens for row in rows]
        look, label = looks[entry.condition], common.display(entry.condition)
        estimates = [getattr(row, part) for row in rows]
        if rows:
            curve(axes, tokens, estimates, label=label, **look)
        if entry.worth is not None:
            sense = "start" if part == "nll" else "start_above_intact"
            end = getattr(entry.worth, sense).value
            axes.hlines(
                estimates[0].value, 0, tokens[-1] if end is None else end,
                color=look["color"], ls=":", lw=0.9,
            )  # fmt: skip
    # Of the intact model, whose loss above itself is none; all curves have the same evaluations.
    tokens = [row.tokens for row in result.conditions[0].curve]
    # As the measurement interpolates: linear up to the first evaluation.
    axes.set_xscale("symlog", linthresh=tokens[1])
    ticks = [0, *common.logarithmic_ticks(tokens[1], tokens[-1], 4)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([common.plain_number(tick) for tick in ticks])
    axes.set_ylabel(LABELS[part])


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
