"""Spectra of hidden states, queries and keys along the sequence, by layer (C1)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator, NullLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.spectra.result import PowerSpectra, Signal

COLUMNS = {
    ("hidden_states", "relative_power"): "hidden states X",
    ("queries", "relative_power"): "queries Q",
    ("keys", "relative_power"): "keys K",
    ("keys", "locked"): "locked share of K",
}
"""What is shown, and what it is called."""
PERIODS = (64, 16, 4)
CONDITIONS = 2


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw heat maps, layer by frequency, for each model and condition of the first data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of spectra.

    Returns
    -------
    A row for each model and its first two conditions. The three columns on the left show the
    share of each frequency in the power that varies along the sequence, of X, Q and K; the
    last one the share of it that is locked to position. Frequency 0, the mean of a column, is
    the strip on the left: its power in units of the power that varies. A second axis shows
    the period in tokens.
    """
    runs = shown(of_kind(measurements, "spectra", PowerSpectra))
    results = [run.result for run in common.measured(canvas, runs, "the study has no spectra")]
    if not results:
        return
    norms = _norms(results)
    grid = canvas.add_gridspec(len(runs), len(COLUMNS))
    images: dict[str, object] = {}
    panels: dict[str, list[Axes]] = {"relative_power": [], "locked": []}
    measured = [row for row, run in enumerate(runs) if run.measured is not None]
    first, last = measured[0], measured[-1]
    for row, run in enumerate(runs):
        if run.measured is None:
            axes = canvas.add_subplot(grid[row, :])
            common.not_run(axes, [f"{_name(run)}: {run.reason}"], 90)
            continue
        for column, (quantity, key) in enumerate(COLUMNS):
            axes = canvas.add_subplot(grid[row, column])
            images[key] = _draw_map(axes, run.result, quantity, key, norms[key])
            panels[key].append(axes)
            if row == first:
                axes.set_title(COLUMNS[quantity, key], pad=3)
                _add_periods(axes, run.result)
            axes.tick_params(labelbottom=row == last)
            # Hidden states have a layer more than queries and keys, which share their axis.
            axes.tick_params(left=column < 2, labelleft=column < 2)
            if row == last:
                axes.set_xlabel("cycles per token", labelpad=1)
            if column == 0:
                # Low rows have no room for names along them.
                upright = {} if len(runs) <= 4 else {"rotation": 0, "ha": "right", "va": "center"}
                axes.set_ylabel(_name(run).replace(", ", "\n"), **upright)
    canvas.supylabel("layer", fontsize=style.font_size)
    labels = {
        "relative_power": "share of varying power",
        "locked": "locked share",
    }
    for key, label in labels.items():
        bar = canvas.colorbar(
            images[key], ax=panels[key], location="bottom", fraction=0.05, pad=0.02,
            aspect=30 if key == "relative_power" else 9,
            extend="both" if key == "relative_power" else "neither",
        )  # fmt: skip
        bar.set_label(label)
        bar.outline.set_linewidth(0.4)
        bar.ax.minorticks_off()
        ticks = [0, 0.5, 1]
        if key == "relative_power":
            ticks = common.logarithmic_ticks(norms[key].vmin, norms[key].vmax, 6)
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])


def shown(runs: list[Run[PowerSpectra]]) -> list[Run[PowerSpectra]]:
    """The first conditions of the first data set, model after model."""
    first_runs = []
    for model in common.unique(run.model for run in runs):
        of_model = [run for run in runs if (run.model, run.dataset) == (model, runs[0].dataset)]
        first_runs += of_model[:CONDITIONS]
    return first_runs


def _name(run: Run[PowerSpectra]) -> str:
    return f"{common.display(run.model)}, {common.display(run.condition)}"


def _norms(results: list[PowerSpectra]) -> dict[str, Normalize]:
    """One colour scale for all spectra, which holds all frequencies but 0."""
    values = [
        value
        for result in results
        for _, signal in result.quantities
        for row in signal.relative_power
        for value in row
    ]
    positive = [value for value in values if value > 0]
    return {"relative_power": LogNorm(min(positive), max(positive)), "locked": Normalize(0, 1)}


def _draw_map(
    axes: Axes, result: PowerSpectra, quantity: str, key: str, norm: Normalize
) -> QuadMesh:
    signal: Signal = getattr(result.quantities, quantity)
    frequencies = np.array(result.frequencies)
    if key == "locked":
        zero, others = [row[0] for row in signal.locked], [row[1:] for row in signal.locked]
    else:
        zero, others = signal.constant_to_varying, signal.relative_power
    step = frequencies[1]
    edges = np.append(frequencies[1:] - step / 2, frequencies[-1] + step / 2)
    # A logarithmic axis has no place for 0: it stands apart, on the left.
    apart = np.array([0.45, 0.75]) * edges[0]
    layers = np.arange(len(others) + 1) - 0.5
    options = {"cmap": "viridis" if key != "locked" else "magma", "norm": norm, "rasterized": True}
    axes.pcolormesh(apart, layers, np.array(zero)[:, None], **options)
    image = axes.pcolormesh(edges, layers, np.array(others), **options)
    axes.set_xscale("log")
    ticks = [tick for tick in (0.02, 0.1, 0.5) if edges[0] < tick < edges[-1]]
    places = [float(apart.prod() ** 0.5), *ticks]
    axes.set_xticks(places, labels=["0", *(f"{tick:g}" for tick in ticks)])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(apart[0], edges[-1])
    axes.set_ylim(layers[0], layers[-1])
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.tick_params(length=2, pad=1.5)
    axes.spines[:].set_visible(False)
    return image


def _add_periods(axes: Axes, result: PowerSpectra) -> None:
    """A second axis, of the period."""
    inside = [p for p in PERIODS if result.frequencies[1] <= 1 / p <= result.frequencies[-1]]
    top = axes.secondary_xaxis("top")
    top.set_xticks([1 / p for p in inside], labels=[str(p) for p in inside])
    top.xaxis.set_minor_locator(NullLocator())
    top.tick_params(length=2, pad=1)
    top.set_xlabel("period (tokens)", labelpad=2)
    top.spines[:].set_visible(False)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
