"""Corpus perplexity of the decoders under each condition."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw perplexities with their intervals on a logarithmic axis, a row for each data set.

    Parameters
    ----------
    measurements : list of dict
        Perplexity measurements; what was not run is left out, and where nothing was run the
        figure says why.

    Returns
    -------
    A point with its interval for each condition, and a tick at the vocabulary's size, the
    perplexity of a model that gives every token the same probability.
    """
    axes = canvas.add_subplot()
    measured = [measurement for measurement in measurements if measurement["status"] == "measured"]
    if not measured:
        reasons = [measurement["reason"] for measurement in measurements]
        common.not_run(axes, reasons or ["the study has no runs"], 40)
        return
    rows = common.unique(common.run_of(measurement)[:2] for measurement in measured)
    conditions = common.unique(common.run_of(measurement)[2] for measurement in measured)
    colours = common.condition_colours(measurements, style)
    for row, panel in enumerate(rows):
        for index, condition in enumerate(conditions):
            for measurement in measured:
                if common.run_of(measurement) == (*panel, condition):
                    # Side by side, so that neither points nor intervals hide each other.
                    shift = 0.5 * ((index + 1) / (len(conditions) + 1) - 0.5)
                    _draw_point(axes, measurement, row + shift, colours[condition], index)
        sizes = [
            measurement["vocabulary_size"]
            for measurement in measured
            if common.run_of(measurement)[:2] == panel
        ]
        axes.plot(
            sizes[:1], [row], color="black", marker="|", ms=11, ls="none",
            label="uniform over the vocabulary",
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), ["\n".join(map(common.display, row)) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    _set_scale(axes, measured)
    axes.set_xlabel("perplexity")
    common.legend_above(canvas, [axes], columns=2)


def _draw_point(axes, measurement: dict, height: float, colour: str, index: int) -> None:
    estimate = measurement["perplexity"]
    axes.plot(
        [estimate["low"], estimate["high"]], [height, height], color=colour, lw=1, marker="|", ms=5
    )
    axes.plot(
        [estimate["value"]], [height], color=colour, ls="none", ms=3,
        marker=common.MARKERS[index % len(common.MARKERS)],
        label=common.display(measurement["run"]["condition"]),
    )  # fmt: skip


def _set_scale(axes, measured: list[dict]) -> None:
    values = [measurement["vocabulary_size"] for measurement in measured]
    for measurement in measured:
        values += [measurement["perplexity"]["low"], measurement["perplexity"]["high"]]
    low, high = min(values) / 1.4, max(values) * 1.4
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = common.logarithmic_ticks(low, high, 4)
    axes.set_xticks(ticks, [common.plain_number(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color="0.9", lw=0.6)
    axes.set_axisbelow(True)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
