"""Errors of position probes by layer, of a decoder without its table under other masks."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.figures import common
from posenc.figures.evaluated import curve
from posenc.figures.section import Figure, Style

LABELS = {
    "intact": "with its table",
    "zero": "without its table",
    "random": "random weights",
    "non_causal": "no causal mask",
    "no_first_key": "first key hidden",
}
"""All but the first are without the table."""
CHANCE = {"color": "0.6", "lw": 0.9, "ls": ":"}


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the errors of all variants of the first decoder that was measured, on its first text.

    Parameters
    ----------
    measurements : list of dict
        Measurements of causal_probes.

    Returns
    -------
    A line with its interval for each variant, windows dashed; dotted, chance.
    """
    axes = made.add_subplot()
    # An encoder has no causal mask to go without.
    found = [one for one in measurements if len(one.get("variants", [])) > 3]
    measured = [one for one in found if one["status"] == "measured"]
    if not measured:
        reasons = [one["reason"] for one in measurements if one["reason"]]
        common.not_run(axes, reasons or ["no decoder with a table"], 40)
        return
    _draw_panel(axes, measured[0], style)
    run = measured[0]["run"]
    axes.set_title(", ".join(common.display(run[key]) for key in ("model", "dataset")))
    common.legend_above(made, [axes], columns=3)


def _draw_panel(axes: Axes, one: dict, style: Style) -> None:
    for place, entry in enumerate(one["variants"]):
        layers, width = entry["layers"], entry["window"]
        colour = style.palette[(place - 1) % len(style.palette)]
        curve(
            axes, [layer["layer"] for layer in layers], [layer["error"] for layer in layers],
            color=common.GREY if entry["variant"] == common.INTACT else colour, lw=1.1, ms=2.5,
            marker=common.MARKERS[place % len(common.MARKERS)], ls="--" if width else "-",
            label=f"window of {width}" if width else LABELS[entry["variant"]],
        )  # fmt: skip
    axes.axhline(one["chance"]["value"], zorder=0, label="chance", **CHANCE)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layer (0: embedding)")
    axes.set_ylabel("error (tokens)")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
