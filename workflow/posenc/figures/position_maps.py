"""Position embeddings as a table, as directions, and as signals along the sequence."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure as Canvas
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.position_embeddings.result import PositionTable

ROWS = ("table", "cosine", "spectra")
DEVIATIONS = 2.5
"""The colours of a table's entries end at so many standard deviations."""
TICKS_OF = {"table": (-2, 0, 2), "cosine": (-1, 0, 1), "spectra": (0, 0.5, 1)}
"""Of the colour bars."""
FREQUENCIES = (0.5, 0.1, 0.01, 0.001)
"""Frequencies with a tick, in cycles per token."""
PERIODS = (2, 10, 100, 1000)


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw a column for each table: its entries, cosines of positions, spectra of dimensions.

    Parameters
    ----------
    measurements : list of dict
        Measurements of position embeddings, in order.

    Returns
    -------
    Three rows of heat maps. The frequency axis is shared; its other scale is the period.
    """
    runs = of_kind(measurements, "position_embeddings", PositionTable)
    measured = common.measured(canvas, runs, "the study has no position embeddings")
    if not measured:
        return
    lowest = min(run.result.maps.spectra.edges[0] for run in measured)
    panels = canvas.subplots(len(ROWS), len(runs), squeeze=False)  # [3, tables]
    images = {}
    for column, run in zip(panels.T, runs, strict=True):
        column[0].set_title(_title(run.model, len(runs)))
        if run.measured is None:
            common.not_run(column[1], [run.reason], 14)
            for axes in (column[0], column[2]):
                # The title stays.
                axes.set_frame_on(False)
                axes.set_xticks([])
                axes.set_yticks([])
            continue
        images["table"] = _draw_table(column[0], run.result)
        images["cosine"] = _draw_cosine(column[1], run.result)
        images["spectra"] = _draw_spectra(column[2], run.result, lowest)
    _label(panels, [run.measured is not None for run in runs])
    labels = ("entry (deviations)", "cosine", "amplitude")
    for name, row, label in zip(ROWS, panels, labels, strict=True):
        extend = "both" if name == "table" else "neither"
        bar = canvas.colorbar(
            images[name], ax=list(row), label=label, pad=0.01, aspect=14, extend=extend
        )
        bar.outline.set_linewidth(0.4)
        bar.set_ticks(TICKS_OF[name])


def _title(table: str, columns: int) -> str:
    return textwrap.fill(common.display(table), 30 if columns < 4 else 13 if columns < 8 else 9)


def _draw_table(axes: Axes, result: PositionTable) -> AxesImage:
    shape = result.shape
    image = axes.imshow(
        result.maps.table.values, cmap="RdBu_r", vmin=-DEVIATIONS, vmax=DEVIATIONS,
        extent=(-0.5, shape.d_model - 0.5, shape.rows - 0.5, -0.5),
        aspect="auto", interpolation="nearest",
    )  # fmt: skip
    _ticks(axes)
    return image


def _draw_cosine(axes: Axes, result: PositionTable) -> AxesImage:
    edge = result.shape.rows - 0.5
    image = axes.imshow(
        result.maps.cosine, cmap="RdBu_r", vmin=-1, vmax=1,
        extent=(-0.5, edge, edge, -0.5), aspect="auto", interpolation="nearest",
    )  # fmt: skip
    _ticks(axes)
    return image


def _draw_spectra(axes: Axes, result: PositionTable, lowest: float) -> QuadMesh:
    spectra = result.maps.spectra
    edges = np.linspace(-0.5, result.shape.d_model - 0.5, len(spectra.amplitude[0]) + 1)
    image = axes.pcolormesh(
        edges, spectra.edges, spectra.amplitude, cmap="viridis", vmin=0, vmax=1,
        rasterized=True,
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(lowest, spectra.edges[-1])
    # Below the lowest frequency of a short table there is nothing, which is not an amplitude of 0.
    axes.set_facecolor(common.LIGHT)
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True, min_n_ticks=2))
    high = spectra.edges[-1]
    axes.yaxis.set_major_locator(
        FixedLocator([frequency for frequency in FREQUENCIES if lowest <= frequency <= high])
    )
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return image


def _ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True, min_n_ticks=2))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True, min_n_ticks=2))


def _label(panels: np.ndarray, measured: Sequence[bool]) -> None:
    """Name the axes; panels of a row share the name of the vertical one."""
    columns = len(measured)
    order = "dimension, by frequency" if columns < 4 else "dimension, sorted"
    names = (
        ("dimension" if columns < 8 else "dim.", "position"),
        ("position", "position"),
        (order if columns < 5 else "sorted", "cycles / token"),
    )
    shown = np.flatnonzero(measured)  # [measured columns]
    first, last = shown[0], shown[-1]
    for row, (below, beside) in zip(panels, names, strict=True):
        row[first].set_ylabel(beside)
        for axes in row[shown]:
            axes.set_xlabel(below, labelpad=1)
    for axes in panels[-1][shown[1:]]:
        axes.tick_params(labelleft=False)
    _add_periods(panels[-1][last])


def _add_periods(axes: Axes) -> None:
    """The other scale of a frequency axis."""
    period = axes.secondary_yaxis("right", functions=(_inverse, _inverse))
    low, high = axes.get_ylim()
    period.set_ylabel("period (tokens)")
    period.yaxis.set_major_locator(
        FixedLocator([tick for tick in PERIODS if low <= 1 / tick <= high])
    )
    period.yaxis.set_minor_locator(NullLocator())
    period.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _inverse(values: np.ndarray) -> np.ndarray:
    # Matplotlib asks for the limits of an empty axis too, where 0 has no inverse.
    return 1 / np.maximum(values, 1e-12)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
