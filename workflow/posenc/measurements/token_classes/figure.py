"""Which tokens pay when positions are taken away?"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style

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
    shown = common.measured(
        canvas, evaluated.of_kind(measurements, "token_classes"), "no losses were broken down"
    )
    if not shown:
        return
    firsts: dict[tuple[str, str], dict] = {}
    for measurement in shown:
        firsts.setdefault((measurement["positions"], measurement["run"]["dataset"]), measurement)
    drawn = list(firsts.values())[:MOST_PANELS]
    rows = _rows(drawn)
    first = None
    for place, measurement in enumerate(drawn):
        axes = canvas.add_subplot(1, len(drawn), place + 1, sharey=first)
        axes.set_title(evaluated.panel_title(measurement))
        _costs(axes, measurement, rows, style)
        first = evaluated.share_rows(axes, [(name, factor is None) for factor, name in rows], first)
    label = "cost of taking positions away (nats per token)"
    canvas.supxlabel(label, fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=3)


def _levels(measurement: dict) -> dict[tuple[str, str], dict]:
    """What was measured of each class, by its factor and name."""
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    factors = entries[WITHOUT]["factors"] if WITHOUT in entries else []
    return {
        (factor["factor"], level["class"]): level
        for factor in factors
        for level in factor["classes"]
    }


def _rows(drawn: list[dict]) -> list[tuple[str | None, str]]:
    """Headings, without a factor, and the classes that at least one measurement has."""
    of_all = [_levels(measurement) for measurement in drawn]
    by_factor: dict[str, list[str]] = {}
    for factor, name in dict.fromkeys(level for levels in of_all for level in levels):
        names = by_factor.setdefault(factor, [])
        here = [levels[factor, name] for levels in of_all if (factor, name) in levels]
        if any(level["mean"] is not None for level in here):
            names.append(name)
    return [
        row
        for factor, names in by_factor.items()
        for row in ((None, factor), *((factor, name) for name in names))
    ]


def _costs(axes: Axes, measurement: dict, rows: list[tuple[str | None, str]], style: Style) -> None:
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    if WITHOUT not in entries:
        common.not_run(axes, ["the study does not take positions away"], 20)
        return
    axes.axvline(0, color=common.GREY, lw=0.7)
    mean = entries[WITHOUT]["delta_nll"]["value"]
    axes.axvline(mean, color=common.GREY, ls=":", lw=0.9, label="mean over all tokens")
    levels = _levels(measurement)
    looks = (
        ("mean", "mean of the class", -STEP, True),
        ("adjusted", "adjusted for the other classes", STEP, False),
    )
    for row, place in enumerate(rows):
        for key, label, offset, is_filled in looks:
            estimate = levels[place][key] if place in levels else None
            if estimate is None:
                continue
            height, colour = row + offset, style.palette[0 if is_filled else 1]
            axes.plot([estimate["low"], estimate["high"]], [height] * 2, color=colour, lw=1)
            axes.plot(
                [estimate["value"]], [height], ls="none", marker="o", ms=3, color=colour,
                mfc=colour if is_filled else "white", label=label,
            )  # fmt: skip


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
