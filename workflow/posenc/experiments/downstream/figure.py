"""Accuracy of classifiers with and without position embeddings, and what their gain goes with."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style

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
    downstream = [
        measurement for measurement in measurements if measurement["measurement"] == "downstream"
    ]
    measured = common.measured(canvas, downstream, "no measurement")
    if not measured:
        return
    rows = common.unique(
        row_of(entry) for measurement in measured for entry in measurement["results"]
    )
    layout = canvas.add_gridspec(
        1,
        len(downstream) + 1,
        width_ratios=[*[1] * len(downstream), 1.15 if len(downstream) < 3 else 1],
    )
    panels: list[Axes] = []
    for place, measurement in enumerate(downstream):
        axes = canvas.add_subplot(layout[place])
        axes.set_title(
            ", ".join(common.display(measurement["run"][k]) for k in ("model", "dataset"))
        )
        if len(downstream) > 1:
            axes.set_title("\n".join(axes.get_title().split(", ")))
        if measurement["status"] != "measured":
            common.not_run(axes, [measurement["reason"]], 18)
            continue
        _accuracies(axes, measurement, rows, style, narrow=len(downstream) > 1)
        axes.tick_params(labelleft=not panels)
        panels.append(axes)
    panels[len(panels) // 2].set_xlabel("accuracy on test documents (%)")
    last = canvas.add_subplot(layout[-1])
    _gains(last, measured, style)
    _legend(canvas, measured, style)


def row_of(entry: dict) -> tuple[str, str]:
    """Task and method, which have a row of their own."""
    return entry["task"], entry["method"]


def tasks_of(measured: list[dict]) -> list[str]:
    """All tasks in order."""
    return common.unique(
        entry["task"] for measurement in measured for entry in measurement["results"]
    )


def _accuracies(
    axes: Axes, measurement: dict, rows: list[tuple[str, str]], style: Style, narrow: bool
) -> None:
    axes.axvline(PERCENT * measurement["chance"], color=common.GREY, lw=0.8, ls="--", zorder=0)
    looks = dict(zip(POSITIONS, zip("os", style.palette, strict=False), strict=True))
    for entry in measurement["results"]:
        row = rows.index(row_of(entry))
        marker, colour = looks[entry["positions"]]
        shift = 0.0 if entry["positions"] == "intact" else 0.24
        _mark(axes, entry["accuracy"], row + shift, marker=marker, color=colour, mfc=colour)
        if entry["positions"] == "intact":
            _mark(
                axes, entry["accuracy_shuffled"], row - 0.24, marker=marker, color=colour,
                mfc="white",
            )  # fmt: skip
    for entry in measurement["bags_of_words"]:
        for row, (task, _) in enumerate(rows):
            if task == entry["task"]:
                look = {"marker": "D", "color": common.GREY, "mfc": "white"}
                _mark(axes, entry["accuracy"], row + 0.38, **look)
    names = [f"{common.display(task)},\n{METHODS[method]}" for task, method in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color="0.9", lw=0.5, zorder=0)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 42), max(high, 102))
    axes.set_xticks([50, 75, 100] if narrow else [50, 60, 70, 80, 90, 100])


def _mark(axes: Axes, estimate: dict, height: float, **look) -> None:
    """A mean with its interval, which may reach beyond what an accuracy can be."""
    low, high = (min(max(estimate[end], 0.0), 1.0) * PERCENT for end in ("low", "high"))
    axes.plot([low, high], [height, height], color=look["color"], lw=1)
    axes.plot([PERCENT * estimate["value"]], [height], ls="none", ms=3.6, mew=0.8, **look)


def _gains(axes: Axes, measured: list[dict], style: Style) -> None:
    colours = task_colours(measured, style)
    axes.axhline(0, color=common.GREY, lw=0.8, ls="--", zorder=0)
    for number, measurement in enumerate(measured):
        scores = {
            row_of(entry): entry["order_sensitivity"]
            for entry in measurement["results"]
            if entry["positions"] == "intact"
        }
        for entry in measurement["gains"]:
            score, gain = scores[row_of(entry)], entry["gain"]
            if score["status"] != "measured":
                continue
            x, y = score["value"], PERCENT * gain["value"]
            colour = colours[entry["task"]]
            axes.plot([score["low"], score["high"]], [y, y], color=colour, lw=0.9)
            axes.plot([x, x], [PERCENT * gain[e] for e in ("low", "high")], color=colour, lw=0.9)
            axes.plot(
                [x], [y], ls="none", marker=common.MARKERS[number], ms=4.4, mew=0.9, color=colour,
                mfc=colour if entry["method"] == "fine_tuned" else "white",
            )  # fmt: skip
    axes.set_xlim(left=min(-0.05, axes.get_xlim()[0]))
    axes.set_xlabel("order sensitivity (1 − κ)")
    axes.set_ylabel("gain from positions\n(percentage points)")


def task_colours(measured: list[dict], style: Style) -> dict[str, str]:
    """A colour for each task, none of them that of positions."""
    return dict(zip(tasks_of(measured), style.palette[len(POSITIONS) :], strict=False))


def _legend(canvas: Canvas, measured: list[dict], style: Style) -> None:
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
            common.display(measurement["run"]["model"]): mark(common.MARKERS[number], "k")
            for number, measurement in enumerate(measured)
        }
    canvas.legend(
        list(entries.values()), list(entries), loc="outside upper center", ncols=4,
        borderaxespad=0.2, columnspacing=1.2,
    )  # fmt: skip


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
