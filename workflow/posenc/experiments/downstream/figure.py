"""Accuracy of classifiers with and without position embeddings, and what their gain goes with."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.experiments.downstream.result import Classifier, Downstream, Gain, OrderSensitivity

POSITIONS = ("intact", "zero")
SHUFFLED = "intact, words shuffled"
BAG = "bag of words"
METHODS = {"frozen": "frozen", "fine_tuned": "fine-tuned"}
PERCENT = 100


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw test accuracy by task and method for each model, and gains against order sensitivity.

    Parameters
    ----------
    measurements : list of dict
        Measurements of downstream, one per model.

    Returns
    -------
    A panel per model: mean accuracies over seeds with their intervals, of the intact model also
    on documents with shuffled words, and of a bag of the same words; chance is dashed. A last
    panel: what positions add to the accuracy, against how much the intact model's predictions
    depend on the order of words (0: not at all; 1: shuffling leaves nothing of them), open for
    frozen features.
    """
    runs = of_kind(measurements, "downstream", Downstream)
    measured = common.measured(canvas, runs, "no measurement")
    if not measured:
        return
    rows = common.unique(row_of(entry) for run in measured for entry in run.result.results)
    layout = canvas.add_gridspec(
        1, len(runs) + 1, width_ratios=[*[1] * len(runs), 1.15 if len(runs) < 3 else 1]
    )
    panels: list[Axes] = []
    for place, run in enumerate(runs):
        axes = canvas.add_subplot(layout[place])
        between = ", " if len(runs) == 1 else "\n"
        axes.set_title(between.join(map(common.display, (run.model, run.dataset))))
        if run.measured is None:
            common.not_run(axes, [run.reason], 18)
            continue
        _accuracies(axes, run.result, rows, style, narrow=len(runs) > 1)
        axes.tick_params(labelleft=not panels)
        panels.append(axes)
    panels[len(panels) // 2].set_xlabel("accuracy on test documents (%)")
    last = canvas.add_subplot(layout[-1])
    _gains(last, measured, style)
    _legend(canvas, measured, style)


def row_of(entry: Classifier | Gain) -> tuple[str, str]:
    """Task and method, which have a row of their own."""
    return entry.task, entry.method


def _accuracies(
    axes: Axes, result: Downstream, rows: list[tuple[str, str]], style: Style, narrow: bool
) -> None:
    axes.axvline(PERCENT * result.chance, color=common.GREY, lw=0.8, ls="--", zorder=0)
    looks = dict(zip(POSITIONS, zip("os", style.palette, strict=False), strict=True))
    for entry in result.results:
        row = rows.index(row_of(entry))
        marker, colour = looks[entry.positions]
        shift = 0.0 if entry.positions == "intact" else 0.24
        _mark(axes, entry.accuracy, row + shift, marker=marker, color=colour, mfc=colour)
        if entry.positions == "intact":
            _mark(
                axes, entry.accuracy_shuffled, row - 0.24, marker=marker, color=colour,
                mfc="white",
            )  # fmt: skip
    for bag in result.bags_of_words:
        for row, (task, _) in enumerate(rows):
            if task == bag.task:
                look = {"marker": "D", "color": common.GREY, "mfc": "white"}
                _mark(axes, bag.accuracy, row + 0.38, **look)
    names = [f"{common.display(task)},\n{METHODS[method]}" for task, method in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color="0.9", lw=0.5, zorder=0)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 42), max(high, 102))
    axes.set_xticks([50, 75, 100] if narrow else [50, 60, 70, 80, 90, 100])


def _mark(axes: Axes, estimate: Interval, height: float, **look) -> None:
    """A mean with its interval, which may reach beyond what an accuracy can be."""
    low, high = (min(max(end, 0.0), 1.0) * PERCENT for end in (estimate.low, estimate.high))
    axes.plot([low, high], [height, height], color=look["color"], lw=1)
    axes.plot([PERCENT * estimate.value], [height], ls="none", ms=3.6, mew=0.8, **look)


def _gains(axes: Axes, measured: list[Run[Downstream]], style: Style) -> None:
    colours = task_colours(measured, style)
    axes.axhline(0, color=common.GREY, lw=0.8, ls="--", zorder=0)
    for number, run in enumerate(measured):
        scores = {
            row_of(entry): entry.order_sensitivity
            for entry in run.result.results
            if entry.positions == "intact"
        }
        for gained in run.result.gains:
            score, gain = scores[row_of(gained)], gained.gain
            if not isinstance(score, OrderSensitivity):
                continue
            x, y = score.value, PERCENT * gain.value
            colour = colours[gained.task]
            axes.plot([score.low, score.high], [y, y], color=colour, lw=0.9)
            axes.plot([x, x], [PERCENT * gain.low, PERCENT * gain.high], color=colour, lw=0.9)
            axes.plot(
                [x], [y], ls="none", marker=common.MARKERS[number], ms=4.4, mew=0.9, color=colour,
                mfc=colour if gained.method == "fine_tuned" else "white",
            )  # fmt: skip
    axes.set_xlim(left=min(-0.05, axes.get_xlim()[0]))
    axes.set_xlabel("order sensitivity (1 − κ)")
    axes.set_ylabel("gain from positions\n(percentage points)")


def task_colours(measured: list[Run[Downstream]], style: Style) -> dict[str, str]:
    """A colour for each task in order, none of them that of positions."""
    tasks = common.unique(entry.task for run in measured for entry in run.result.results)
    return dict(zip(tasks, style.palette[len(POSITIONS) :], strict=False))


def _legend(canvas: Canvas, measured: list[Run[Downstream]], style: Style) -> None:
    def mark(marker: str, colour: str, filled: bool = True) -> Line2D:
        return Line2D(
            [], [], ls="none", marker=marker, ms=4, mew=0.9, color=colour,
            mfc=colour if filled else "white",
        )  # fmt: skip

    intact, zero = style.palette[:2]
    entries = {
        common.display("intact"): mark("o", intact),
        SHUFFLED: mark("o", intact, filled=False),
        common.display("zero"): mark("s", zero),
        BAG: mark("D", common.GREY, filled=False),
        "chance, no gain": Line2D([], [], color=common.GREY, lw=0.8, ls="--"),
    }
    colours = task_colours(measured, style)
    entries |= {common.display(task): mark("o", colour) for task, colour in colours.items()}
    entries |= {"fine-tuned": mark("o", "k"), "frozen": mark("o", "k", filled=False)}
    if len(measured) > 1:
        entries |= {
            common.display(run.model): mark(common.MARKERS[number], "k")
            for number, run in enumerate(measured)
        }
    canvas.legend(
        list(entries.values()), list(entries), loc="outside upper center", ncols=4,
        borderaxespad=0.2, columnspacing=1.2,
    )  # fmt: skip


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
