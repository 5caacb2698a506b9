"""Corpus perplexity of the decoders under each condition."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.perplexity.result import CorpusPerplexity


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
    runs = of_kind(measurements, "perplexity", CorpusPerplexity)
    measured = common.measured(canvas, runs, "the study has no runs", 40)
    if not measured:
        return
    axes = canvas.add_subplot()
    rows = common.unique((run.model, run.dataset) for run in measured)
    conditions = common.unique(run.condition for run in measured)
    colours = common.condition_colours(runs, style)
    for row, panel in enumerate(rows):
        for index, condition in enumerate(conditions):
            for run in measured:
                if (run.model, run.dataset, run.condition) == (*panel, condition):
                    # Side by side, so that neither points nor intervals hide each other.
                    shift = 0.5 * ((index + 1) / (len(conditions) + 1) - 0.5)
                    _draw_point(axes, run, row + shift, colours[condition], index)
        sizes = [
            run.result.vocabulary_size for run in measured if (run.model, run.dataset) == panel
        ]
        axes.plot(
            sizes[:1], [row], color="black", marker="|", ms=11, ls="none",
            label="uniform over the vocabulary",
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), ["\n".join(map(common.display, row)) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    _set_scale(axes, [run.result for run in measured])
    axes.set_xlabel("perplexity")
    common.legend_above(canvas, [axes], columns=2)


def _draw_point(
    axes: Axes, run: Run[CorpusPerplexity], height: float, colour: str, index: int
) -> None:
    estimate = run.result.perplexity
    axes.plot([estimate.low, estimate.high], [height, height], color=colour, lw=1, marker="|", ms=5)
    axes.plot(
        [estimate.value], [height], color=colour, ls="none", ms=3,
        marker=common.MARKERS[index % len(common.MARKERS)],
        label=common.display(run.condition),
    )  # fmt: skip


def _set_scale(axes: Axes, results: list[CorpusPerplexity]) -> None:
    values: list[float] = [result.vocabulary_size for result in results]
    for result in results:
        values += [result.perplexity.low, result.perplexity.high]
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
