"""Errors of memory networks on questions about stories, by task."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.experiments.memory_networks.result import MemoryNetworks, Task

TITLES = {"one_fact": "one fact", "two_facts": "two facts", "order": "order of words"}
NAMES = {
    "majority": "majority",
    "bag_of_words": "bag of words",
    "strongly_supervised": "strongly supervised",
    "end_to_end": "end-to-end",
    "dynamic": "dynamic",
}
LOOKS = {
    None: (0, "D", "no choice of positions"),
    False: (1, "o", "without word positions"),
    True: (2, "s", "with word positions"),
}
"""Colour, marker and label by whether words are weighted by their place in the sentence."""
GUESSES = {
    "story": ("--", "guess, words of story"),
    "sentences": (":", "guess, words of sentences"),
}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw test errors over seeds, a panel per task.

    Parameters
    ----------
    measurements : list of dict
        The measurement of memory networks.

    Returns
    -------
    A row for each network and number of hops: mean and interval over seeds, with and without
    word positions. Dashed and dotted lines: what guesses would give that know the words of the
    story, or of each sentence. Triangle: the published mean error, of other tasks. Intervals
    are cut at 0 and 100 %.
    """
    runs = of_kind(measurements, "memory_networks", MemoryNetworks)
    measured = common.measured(canvas, runs, "no measurement")
    if not measured:
        return
    result = measured[0].result
    rows = common.unique((cell.network, cell.hops) for cell in result.cells)
    first = None
    for place, task in enumerate(result.tasks):
        axes = canvas.add_subplot(1, len(result.tasks), place + 1, sharey=first)
        first = first or axes
        axes.set_title(TITLES[task.task])
        _panel(axes, result, task, rows, style)
        axes.tick_params(axis="y", length=0, labelleft=common.is_left(axes))
    canvas.supxlabel("wrong answers to test questions (%)", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=3)


def _panel(
    axes: Axes, result: MemoryNetworks, task: Task, rows: list[tuple[str, int | None]], style: Style
) -> None:
    for name, (look, label) in GUESSES.items():
        if (guess := getattr(task.guess, name)) > 0:
            axes.axvline(100 * guess, color=common.GREY, ls=look, lw=0.9, label=label)
    for positions, (colour, marker, label) in LOOKS.items():
        cells = [
            cell for cell in result.cells if cell.task == task.task and cell.positions is positions
        ]
        shift = {None: 0, False: -0.17, True: 0.17}[positions]
        errors = [cell.error for cell in cells]
        axes.errorbar(
            [100 * error.value for error in errors],
            [rows.index((cell.network, cell.hops)) + shift for cell in cells],
            # An error is at least 0 and at most 1.
            xerr=[
                [100 * (error.value - max(0, error.low)) for error in errors],
                [100 * (min(1, error.high) - error.value) for error in errors],
            ],
            fmt=marker, color=style.palette[colour], ms=3.6, lw=1, capsize=1.5, label=label,
        )  # fmt: skip
    own = [place for place, (name, _) in enumerate(rows) if name == result.published.network]
    axes.plot(
        [100 * result.published.error], [max(own) + 0.45], "^", color=common.GREY,
        ms=3.6, label="published, 20 bAbI tasks", clip_on=False,
    )  # fmt: skip
    axes.set_yticks(range(len(rows)), [_row(*row) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-4, 104)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.grid(axis="y", color="0.92", lw=0.6)
    axes.set_axisbelow(True)


def _row(network: str, hops: int | None) -> str:
    if hops is None:
        return NAMES[network]
    word = "pass" if network == "dynamic" else "hop"
    return f"{NAMES[network]}, {hops} {word}{'' if hops == 1 else 'es' if word == 'pass' else 's'}"


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
