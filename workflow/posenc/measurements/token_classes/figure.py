"""Which tokens pay when positions are taken away?"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.token_classes.result import Costs, TokenClass

WITHOUT = "zero"
STEP = 0.18
MOST_PANELS = 4


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the cost of taking positions away by class of token, a panel per model and data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of classes of tokens; of the models, the first with a table of positions and
        the first rotary one are drawn.

    Returns
    -------
    Means with their intervals, and, hollow, adjusted for the other classes.
    """
    runs = common.measured(
        canvas, of_kind(measurements, "token_classes", Costs), "no losses were broken down"
    )
    if not runs:
        return
    firsts: dict[tuple[str, str], Run[Costs]] = {}
    for run in runs:
        firsts.setdefault((run.result.positions, run.dataset), run)
    drawn = list(firsts.values())[:MOST_PANELS]
    rows = _rows([run.result for run in drawn])
    first = None
    for place, run in enumerate(drawn):
        axes = canvas.add_subplot(1, len(drawn), place + 1, sharey=first)
        axes.set_title(evaluated.panel_title(run))
        _costs(axes, run.result, rows, style)
        first = evaluated.share_rows(axes, [(name, factor is None) for factor, name in rows], first)
    label = "cost of taking positions away (nats per token)"
    canvas.supxlabel(label, fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=3)


def _levels(result: Costs) -> dict[tuple[str, str], TokenClass]:
    """What was measured of each class, by its factor and name."""
    entries = {entry.condition: entry for entry in result.conditions}
    factors = entries[WITHOUT].factors if WITHOUT in entries else []
    return {(factor.factor, level.name): level for factor in factors for level in factor.classes}


def _rows(drawn: list[Costs]) -> list[tuple[str | None, str]]:
    """Headings, without a factor, and the classes that at least one measurement has."""
    of_all = [_levels(result) for result in drawn]
    by_factor: dict[str, list[str]] = {}
    for factor, name in dict.fromkeys(level for levels in of_all for level in levels):
        names = by_factor.setdefault(factor, [])
        here = [levels[factor, name] for levels in of_all if (factor, name) in levels]
        if any(level.mean is not None for level in here):
            names.append(name)
    return [
        row
        for factor, names in by_factor.items()
        for row in ((None, factor), *((factor, name) for name in names))
    ]


def _costs(axes: Axes, result: Costs, rows: list[tuple[str | None, str]], style: Style) -> None:
    entries = {entry.condition: entry for entry in result.conditions}
    if WITHOUT not in entries:
        common.not_run(axes, ["the study does not take positions away"], 20)
        return
    axes.axvline(0, color=common.GREY, lw=0.7)
    mean = entries[WITHOUT].delta_nll.value
    axes.axvline(mean, color=common.GREY, ls=":", lw=0.9, label="mean over all tokens")
    levels = _levels(result)
    looks = (
        ("mean", "mean of the class", -STEP, True),
        ("adjusted", "adjusted for the other classes", STEP, False),
    )
    for row, place in enumerate(rows):
        for key, label, offset, is_filled in looks:
            estimate = getattr(levels[place], key) if place in levels else None
            if estimate is None:
                continue
            height, colour = row + offset, style.palette[0 if is_filled else 1]
            axes.plot([estimate.low, estimate.high], [height] * 2, color=colour, lw=1)
            axes.plot(
                [estimate.value], [height], ls="none", marker="o", ms=3, color=colour,
                mfc=colour if is_filled else "white", label=label,
            )  # fmt: skip


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
