"""Variance of self-attention by position in frozen random models without position embeddings."""

from __future__ import annotations

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.random_causal.result import Layer, RandomModels

SHOWN = {"none": "none", "random": "random"}
"""Variants that have a panel, and what their position embeddings are called."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw m times the variance at position m over that at position 1, by layer.

    Parameters
    ----------
    measurements : list of dict
        The measurement of random models.

    Returns
    -------
    A panel without and one with random position embeddings; bands are one standard deviation
    over models. The law of the first layer is the level 1; a variance that does not shrink, as
    without the causal mask, is the dashed line m.
    """
    runs = of_kind(measurements, "random_causal", RandomModels)
    measured = common.measured(canvas, runs, "no measurement", 40)
    if not measured:
        return
    layers = {variant.name: variant.layers for variant in measured[0].result.variants}
    first = None
    for place, (name, title) in enumerate(SHOWN.items()):
        axes = first = canvas.add_subplot(1, len(SHOWN), place + 1, sharey=first)
        axes.set_title(f"positions: {title}")
        _panel(axes, layers[name], layers["bidirectional"][0])
        axes.tick_params(labelleft=common.is_left(axes))
    canvas.supxlabel("position m (1: first)", fontsize=style.font_size)
    canvas.supylabel("m · variance / first variance", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=3)


def _panel(axes: Axes, layers: list[Layer], without_mask: Layer) -> None:
    shades = colormaps["viridis"]
    for entry in layers:
        mean, sd = entry.scaled.mean, entry.scaled.sd  # [tokens] each
        colour = shades(0.9 * entry.layer / max(1, len(layers) - 1))
        places = range(1, len(mean) + 1)
        low = [max(a - b, 1e-2) for a, b in zip(mean, sd, strict=True)]
        high = [a + b for a, b in zip(mean, sd, strict=True)]
        axes.fill_between(places, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(places, mean, color=colour, label=f"layer {entry.layer}")
    mean = without_mask.scaled.mean
    axes.plot(
        range(1, len(mean) + 1), mean, color=common.GREY, ls="--", lw=0.8, label="no causal mask"
    )
    axes.axhline(1, color=common.GREY, lw=0.8, ls=":", label="law")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, len(mean))
    axes.set_ylim(0.5, 1.3 * max(mean))
    for axis, most in ((axes.xaxis, 4), (axes.yaxis, 6)):
        low, high = axis.get_view_interval()
        ticks = common.logarithmic_ticks(low, high, most)
        axis.set_ticks(ticks, [common.plain_number(tick) for tick in ticks])
    axes.minorticks_off()


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
