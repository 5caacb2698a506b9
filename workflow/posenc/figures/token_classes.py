"""Which tokens pay when positions are taken away?"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.figures import common, evaluated
from posenc.figures.section import Figure, Style

WITHOUT = "zero"
STEP = 0.18
MOST_PANELS = 4


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the cost of taking positions away by class of token, a panel per model and data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of classes of tokens; of the models, the first with a table of positions and
        the first rotary one are drawn.

    Returns
    -------
    Means with their intervals; filled as they are, hollow adjusted for the other classes.
    """
    shown = common.measured(
        made, evaluated.of_kind(measurements, "token_classes"), "no losses were broken down"
    )
    if not shown:
        return
    firsts: dict[tuple[str, str], dict] = {}
    for one in shown:
        firsts.setdefault((one["positions"], one["run"]["dataset"]), one)
    drawn = list(firsts.values())[:MOST_PANELS]
    panels = made.subplots(1, len(drawn), sharey=True, squeeze=False)[0]
    rows = [
        row
        for factor in drawn[0]["conditions"][0]["factors"]
        for row in ((factor["factor"], True), *((one["class"], False) for one in factor["classes"]))
    ]
    for axes, one in zip(panels, drawn, strict=True):
        axes.set_title(common.title(made, one["run"]["model"], len(drawn))
                       + "\n" + common.title(made, one["run"]["dataset"], len(drawn)))  # fmt: skip
        _costs(axes, one, style)
    evaluated.label_rows(panels[0], rows)
    made.supxlabel("cost in nats per token", fontsize=style.font_size)
    common.legend_above(made, panels, columns=2)


def _costs(axes: Axes, one: dict, style: Style) -> None:
    entries = {entry["condition"]: entry for entry in one["conditions"]}
    if WITHOUT not in entries:
        common.not_run(axes, ["the study does not take positions away"], 20)
        return
    axes.axvline(0, color=common.GREY, lw=0.7)
    axes.axvline(entries[WITHOUT]["delta_nll"]["value"], color=common.GREY, ls=":", lw=0.9)
    row = 0
    for factor in entries[WITHOUT]["factors"]:
        row += 1  # The heading.
        for level in factor["classes"]:
            looks = (("mean", "as it is", -STEP, True), ("adjusted", "adjusted", STEP, False))
            for key, label, offset, is_filled in looks:
                if level[key] is None:
                    continue
                height, colour = row + offset, style.palette[0 if is_filled else 1]
                axes.plot([level[key]["low"], level[key]["high"]], [height] * 2, color=colour, lw=1)
                axes.plot(
                    [level[key]["value"]], [height], ls="none", marker="o", ms=3, color=colour,
                    mfc=colour if is_filled else "white", label=label,
                )  # fmt: skip
            row += 1


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
