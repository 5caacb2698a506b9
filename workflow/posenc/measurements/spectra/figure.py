"""Spectra of hidden states, queries and keys along the sequence, by layer (C1)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator, NullLocator

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style

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
    runs = shown(measurements)
    if not any(run["status"] == "measured" for run in runs):
        reasons = [run["reason"] for run in runs] or ["the study has no spectra"]
        common.not_run(canvas.add_subplot(), reasons, 60)
        return
    norms = _norms(runs)
    grid = canvas.add_gridspec(len(runs), len(COLUMNS))
    images: dict[str, object] = {}
    panels: dict[str, list[Axes]] = {"relative_power": [], "locked": []}
    measured = [row for row, run in enumerate(runs) if run["status"] == "measured"]
    first, last = measured[0], measured[-1]
    for row, run in enumerate(runs):
        if run["status"] != "measured":
            axes = canvas.add_subplot(grid[row, :])
            common.not_run(axes, [f"{_name(run)}: {run['reason']}"], 90)
            continue
        for column, (quantity, key) in enumerate(COLUMNS):
            axes = canvas.add_subplot(grid[row, column])
            images[key] = _draw_map(axes, run, quantity, key, norms[key])
            panels[key].append(axes)
            if row == first:
                axes.set_title(COLUMNS[quantity, key], pad=3)
                _add_periods(axes, run)
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


def shown(measurements: list[dict]) -> list[dict]:
    """The first conditions of the first data set, model after model."""
    spectra = [
        measurement for measurement in measurements if measurement["measurement"] == "spectra"
    ]
    datasets = common.unique(common.run_of(measurement)[1] for measurement in spectra)
    models = common.unique(common.run_of(measurement)[0] for measurement in spectra)
    first_runs = []
    for model in models:
        runs = [
            measurement
            for measurement in spectra
            if common.run_of(measurement)[:2] == (model, datasets[0])
        ]
        first_runs += runs[:CONDITIONS]
    return first_runs


def _name(run: dict) -> str:
    model, _, condition = common.run_of(run)
    return f"{common.display(model)}, {common.display(condition)}"


def _norms(runs: list[dict]) -> dict[str, Normalize]:
    """One colour scale for all spectra, which holds all frequencies but 0."""
    values = [
        value
        for run in runs
        if run["status"] == "measured"
        for quantity in run["quantities"].values()
        for row in quantity["relative_power"]
        for value in row
    ]
    positive = [value for value in values if value > 0]
    return {"relative_power": LogNorm(min(positive), max(positive)), "locked": Normalize(0, 1)}


def _draw_map(axes: Axes, run: dict, quantity: str, key: str, norm: Normalize) -> QuadMesh:
    spectrum, frequencies = run["quantities"][quantity], np.array(run["frequencies"])
    if key == "locked":
        zero, others = [row[0] for row in spectrum[key]], [row[1:] for row in spectrum[key]]
    else:
        zero, others = spectrum["constant_to_varying"], spectrum[key]
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


def _add_periods(axes: Axes, run: dict) -> None:
    """A second axis, of the period."""
    inside = [p for p in PERIODS if run["frequencies"][1] <= 1 / p <= run["frequencies"][-1]]
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
