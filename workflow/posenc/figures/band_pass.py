"""How far attention moves when queries and keys keep one band of frequencies, or lose it (C2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.drawing import common
from posenc.drawing.evaluated import band_name
from posenc.drawing.section import Figure, Style

UNIFORM = "uniform attention"


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw small multiples, model by data set: the distance of each band's pattern by layer.

    Parameters
    ----------
    measurements : list of dict
        Measurements of spectra; those of the intact model are shown.

    Returns
    -------
    Total variation distance to the pattern of the unfiltered pair, with intervals: of queries
    and keys that keep one band (solid), that lose it (dotted), and of uniform attention
    (dashed).
    """
    panels = {}
    for one in measurements:
        model, dataset, condition = common.run_of(one)
        if one["measurement"] == "spectra" and condition == common.INTACT:
            panels[model, dataset] = one
    found = {panel: one.get("band_pass", one) for panel, one in panels.items()}
    if not any(one["status"] == "measured" for one in found.values()):
        reasons = [one["reason"] for one in found.values()] or ["the study has no spectra"]
        common.not_run(made.add_subplot(), reasons, 60)
        return
    shown = {panel: one for panel, one in found.items() if one["status"] == "measured"}
    grid = common.grid(made, list(shown))
    top = 0.04 + max(
        estimate["high"]
        for one in shown.values()
        for layer in [one["uniform"], *one["kept"], *one["left_out"]]
        for estimate in layer
    )
    for panel, one in shown.items():
        axes = grid[panel]
        _draw_bands(axes, panels[panel]["bands"], one, style)
        axes.set_ylim(0, top)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.margins(x=0.06)
        axes.tick_params(labelleft=common.is_left(axes))
        axes.set_xlabel("layer")
    made.supylabel("total variation distance", fontsize=style.font_size)
    common.note_not_run(
        made,
        {", ".join(panel): one["reason"] for panel, one in found.items() if panel not in shown},
    )
    common.legend_above(made, grid.values(), columns=4)


def _draw_bands(axes: Axes, edges: list[float], found: dict, style: Style) -> None:
    layers = range(len(found["uniform"]))
    for band in range(len(edges) - 1):
        colour = style.palette[band % len(style.palette)]
        name = band_name(edges, band)
        kept = [layer[band] for layer in found["kept"]]
        left_out = [layer[band] for layer in found["left_out"]]
        _curve(axes, layers, kept, color=colour, marker="o", ms=2.5, label=f"only {name}")
        _curve(axes, layers, left_out, color=colour, ls=":", marker="o", ms=2.5, mfc="white",
               label=f"all but {name}")  # fmt: skip
    # Last, so that the two lines of a band stand above each other in the legend.
    _curve(axes, layers, found["uniform"], color=common.GREY, ls="--", lw=1, label=UNIFORM)


def _curve(axes: Axes, layers: range, estimates: list[dict], **look) -> None:
    low, high = ([one[key] for one in estimates] for key in ("low", "high"))
    axes.fill_between(layers, low, high, color=look["color"], alpha=0.25, lw=0)
    axes.plot(layers, [one["value"] for one in estimates], **look)


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
