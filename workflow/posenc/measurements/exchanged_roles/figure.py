"""How near are a sentence, the same with its names exchanged, and a paraphrase?"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.exchanged_roles.result import Comparisons

ROWS = {
    "exchanged": "names exchanged",
    "paraphrase": "paraphrase",
    "unrelated": "unrelated sentence",
}
STEP = 0.16


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw cosines with three kinds of sentences, a panel per model.

    Parameters
    ----------
    measurements : list of dict
        Measurements of exchanged roles.

    Returns
    -------
    Means over sentences with their intervals; filled with positions, hollow without.
    """
    runs = of_kind(measurements, "exchanged_roles", Comparisons)
    shown = common.measured(canvas, runs, "no sentences were compared")
    if not shown:
        return
    panels = canvas.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, run in zip(panels, shown, strict=True):
        _cosines(axes, run.result, style)
        axes.set_title(common.title(canvas, run.model, len(shown)))
    panels[0].set_yticks(range(len(ROWS)), list(ROWS.values()))
    panels[0].invert_yaxis()
    common.legend_above(canvas, panels, columns=4)


def _cosines(axes: Axes, result: Comparisons, style: Style) -> None:
    measured = [each for each in result.languages if each.status == "measured"]
    for place, (colour, language) in enumerate(zip(style.palette, measured, strict=False)):
        for condition in language.conditions:
            has_positions = condition.condition == common.INTACT
            offset = (place - 0.5) * 2 * STEP + (-STEP / 2 if has_positions else STEP / 2)
            heights = [row + offset for row in range(len(ROWS))]
            estimates = [getattr(condition, kind) for kind in ROWS]
            for height, each in zip(heights, estimates, strict=True):
                axes.plot([each.low, each.high], [height, height], color=colour, lw=1)
            axes.plot(
                [each.value for each in estimates], heights, ls="none", marker="o", ms=3.4,
                color=colour, mfc=colour if has_positions else "white",
                label=f"{language.language.title()}, {common.display(condition.condition)}",
            )  # fmt: skip
    axes.axvline(1, color=common.GREY, ls=":", lw=0.9)
    axes.set_xlabel("cosine with\nthe sentence")


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
