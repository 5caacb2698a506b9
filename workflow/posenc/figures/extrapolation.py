"""Loss by position in documents that are longer than the decoder was trained for."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import of_kind
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.conditions.result import LongDocuments


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the loss by position, beyond the trained length too, with a panel for each model.

    Parameters
    ----------
    measurements : list of dict
        Measurements of extrapolation; of a model that was not run, a line below says why.

    Returns
    -------
    A line with its interval for each condition; a dashed line at the trained length.
    """
    runs = of_kind(measurements, "extrapolation", LongDocuments)
    measured = common.measured(canvas, runs, "the study has no runs")
    if not measured:
        return
    looks = evaluated.series(
        common.unique(entry.condition for run in measured for entry in run.result.conditions),
        style,
    )
    ends = [
        end
        for run in measured
        for entry in run.result.conditions
        for bucket in entry.buckets
        for end in (bucket.nll_per_token.low, bucket.nll_per_token.high)
    ]
    margin = 0.04 * (max(ends) - min(ends))
    for place, run in enumerate(measured):
        axes = canvas.add_subplot(1, len(measured), place + 1)
        axes.set_title(common.title(canvas, run.model, len(measured)))
        _draw_panel(axes, run.result, looks)
        axes.set_ylim(min(ends) - margin, max(ends) + margin)
        axes.tick_params(labelleft=place == 0)
        if place == 0:
            axes.set_ylabel("loss (nats per token)")
        axes.set_xlabel("position")
    common.note_not_run(canvas, {run.model: run.reason for run in runs if run.measured is None})
    common.legend_above(canvas, canvas.axes, columns=3)


def _draw_panel(axes: Axes, result: LongDocuments, looks: dict[str, dict]) -> None:
    for entry in result.conditions:
        middles = [(bucket.begin + bucket.to) / 2 for bucket in entry.buckets]
        evaluated.curve(
            axes, middles, [bucket.nll_per_token for bucket in entry.buckets],
            label=common.display(entry.condition), **looks[entry.condition],
        )  # fmt: skip
    axes.axvline(result.trained_tokens, color="black", lw=0.8, ls="--", label="trained length")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y", color="0.92", lw=0.6)
    axes.set_axisbelow(True)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
