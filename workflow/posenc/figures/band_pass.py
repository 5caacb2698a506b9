"""How far attention moves when queries and keys keep one band of frequencies, or lose it (C2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import band_name
from posenc.drawing.section import Figure, Style
from posenc.measurements.spectra.result import BandPass, NoPattern, PowerSpectra

UNIFORM = "uniform attention"


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
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
    panels = {
        (run.model, run.dataset): run
        for run in of_kind(measurements, "spectra", PowerSpectra)
        if run.condition == common.INTACT
    }
    shown: dict[tuple[str, str], BandPass] = {}
    reasons: dict[str, str] = {}
    for panel, run in panels.items():
        if run.measured is None:
            reasons[", ".join(panel)] = run.reason
        elif isinstance(run.measured.band_pass, NoPattern):
            reasons[", ".join(panel)] = run.measured.band_pass.reason
        else:
            shown[panel] = run.measured.band_pass
    if not shown:
        said = list(reasons.values()) or ["the study has no spectra"]
        common.not_run(canvas.add_subplot(), said, 60)
        return
    grid = common.grid(canvas, list(shown))
    top = 0.04 + max(
        estimate.high
        for result in shown.values()
        for layer in [result.uniform, *result.kept, *result.left_out]
        for estimate in layer
    )
    for panel, result in shown.items():
        axes = grid[panel]
        _draw_bands(axes, panels[panel].result.bands, result, style)
        axes.set_ylim(0, top)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.margins(x=0.06)
        axes.tick_params(labelleft=common.is_left(axes))
        axes.set_xlabel("layer")
    canvas.supylabel("total variation distance", fontsize=style.font_size)
    common.note_not_run(canvas, reasons)
    common.legend_above(canvas, grid.values(), columns=4)


def _draw_bands(axes: Axes, edges: list[float], result: BandPass, style: Style) -> None:
    layers = range(len(result.uniform))
    for band in range(len(edges) - 1):
        colour = style.palette[band % len(style.palette)]
        name = band_name(edges, band)
        kept = [layer[band] for layer in result.kept]
        left_out = [layer[band] for layer in result.left_out]
        _curve(axes, layers, kept, color=colour, marker="o", ms=2.5, label=f"only {name}")
        _curve(axes, layers, left_out, color=colour, ls=":", marker="o", ms=2.5, mfc="white",
               label=f"all but {name}")  # fmt: skip
    # Last, so that the two lines of a band stand above each other in the legend.
    _curve(axes, layers, result.uniform, color=common.GREY, ls="--", lw=1, label=UNIFORM)


def _curve(axes: Axes, layers: range, estimates: list[Interval], **look) -> None:
    low, high = [e.low for e in estimates], [e.high for e in estimates]
    axes.fill_between(layers, low, high, color=look["color"], alpha=0.25, lw=0)
    axes.plot(layers, [estimate.value for estimate in estimates], **look)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
