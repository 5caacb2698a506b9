"""Errors of position probes by layer, of a decoder without positions under other masks.

Beside them, those under conditions of the study that put a mask in the place of positions.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.causal_probes.result import Variant, VariantProbes

LABELS = {
    "random": "random weights",
    "non_causal": "no causal mask",
    "no_first_key": "first key hidden",
}
"""Variants that are no conditions, all without positions."""
WITHOUT = "zero"
CHANCE = {"color": "0.6", "lw": 0.9, "ls": ":"}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the errors of all variants of the first decoder that was measured, on its first text.

    Parameters
    ----------
    measurements : list of dict
        Measurements of causal_probes.

    Returns
    -------
    A line with its interval for each variant, windows dashed; dotted, chance. On the right, the
    model with positions and without, and under conditions of the study.
    """
    runs = of_kind(measurements, "causal_probes", VariantProbes)
    measured = [run for run in runs if run.measured is not None]
    # An encoder has no causal mask to go without.
    decoders = [run for run in measured if len(run.result.variants) > 3]
    if not decoders:
        reasons = [run.reason for run in runs if run.measured is None]
        common.not_run(canvas.add_subplot(), reasons or ["no decoder was examined"], 40)
        return
    run = decoders[0]
    counted = [entry for entry in run.result.variants if entry.spec is None]
    masked = [entry for entry in run.result.variants if entry.spec is not None]
    panels = canvas.subplots(1, 2 if masked else 1, sharey=True, squeeze=False)[0]
    _draw_panel(panels[0], run.result, counted, style)
    if masked:
        ends = [entry for entry in counted if entry.variant in (common.INTACT, WITHOUT)]
        _draw_panel(panels[1], run.result, [*ends, *masked], style)
    panels[0].set_ylabel("error of the position (tokens)")
    title = ", ".join(map(common.display, (run.model, run.dataset)))
    canvas.suptitle(title, fontsize=style.font_size)
    for axes in panels:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=1.2)


def _draw_panel(axes: Axes, result: VariantProbes, entries: list[Variant], style: Style) -> None:
    for place, entry in enumerate(entries):
        layers, width, name = entry.layers, entry.window, entry.variant
        colour = style.palette[(place - 1) % len(style.palette)]
        curve(
            axes, [layer.layer for layer in layers], [layer.error for layer in layers],
            color=common.GREY if name == common.INTACT else colour, lw=1.1, ms=2.5,
            marker=common.MARKERS[place % len(common.MARKERS)], ls="--" if width else "-",
            label=f"window of {width}" if width else LABELS.get(name, common.display(name)),
        )  # fmt: skip
    axes.axhline(result.chance.value, zorder=0, label="best constant", **CHANCE)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layer (0: embedding)")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
