"""Loss by position in documents that are longer than the decoder was trained for."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style


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
    runs = evaluated.of_kind(measurements, "extrapolation")
    measured = common.measured(canvas, runs, "the study has no runs")
    if not measured:
        return
    looks = evaluated.series(
        common.unique(
            entry["condition"] for measurement in measured for entry in measurement["conditions"]
        ),
        style,
    )
    ends = [
        bucket["nll_per_token"][end]
        for measurement in measured
        for entry in measurement["conditions"]
        for bucket in entry["buckets"]
        for end in ("low", "high")
    ]
    margin = 0.04 * (max(ends) - min(ends))
    for place, measurement in enumerate(measured):
        axes = canvas.add_subplot(1, len(measured), place + 1)
        axes.set_title(common.title(canvas, measurement["run"]["model"], len(measured)))
        _draw_panel(axes, measurement, looks)
        axes.set_ylim(min(ends) - margin, max(ends) + margin)
        axes.tick_params(labelleft=place == 0)
        if place == 0:
            axes.set_ylabel("loss (nats per token)")
        axes.set_xlabel("position")
    common.note_not_run(
        canvas, {run["run"]["model"]: run["reason"] for run in runs if run not in measured}
    )
    common.legend_above(canvas, canvas.axes, columns=3)


def _draw_panel(axes: Axes, measurement: dict, looks: dict[str, dict]) -> None:
    for entry in measurement["conditions"]:
        middles = [(bucket["from"] + bucket["to"]) / 2 for bucket in entry["buckets"]]
        evaluated.curve(
            axes, middles, [bucket["nll_per_token"] for bucket in entry["buckets"]],
            label=common.display(entry["condition"]), **looks[entry["condition"]],
        )  # fmt: skip
    axes.axvline(
        measurement["trained_tokens"], color="black", lw=0.8, ls="--", label="trained length"
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y", color="0.92", lw=0.6)
    axes.set_axisbelow(True)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
