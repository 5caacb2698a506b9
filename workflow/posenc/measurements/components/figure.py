"""What of position is in principal and independent components, by layer (C4)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.components.result import PositionComponents

CONDITIONS = 2
LEADING = (1, 4)
"""Numbers of leading components whose share of variance is shown, besides that of all."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw variance, canonical correlation and the components' share of position, by model.

    Parameters
    ----------
    measurements : list of dict
        Measurements of components; those of the first data set are shown.

    Returns
    -------
    A column for each model. First row: cumulative share of variance of the intact model's
    leading principal components. Second row: first canonical correlation with waves over
    positions in held-out documents, with intervals, and its level of chance, by condition.
    Below: the share of each principal and independent component's variance that lies between
    positions, of the intact model.
    """
    models = shown(of_kind(measurements, "components", PositionComponents))
    if not any(runs[0].measured is not None for runs in models.values()):
        reasons = [runs[0].reason for runs in models.values()]
        common.not_run(canvas.add_subplot(), reasons or ["the study has no components"], 60)
        return
    colours = common.condition_colours([run for runs in models.values() for run in runs], style)
    grid = canvas.add_gridspec(4, len(models))
    maps: list[Axes] = []
    lines: list[Axes] = []
    image = None
    for column, (model, runs) in enumerate(models.items()):
        if runs[0].measured is None:
            common.not_run(canvas.add_subplot(grid[:, column]), [runs[0].reason], 22)
            continue
        axes = [canvas.add_subplot(grid[row, column]) for row in range(4)]
        axes[0].set_title(common.display(model))
        result = runs[0].result
        _draw_variance(axes[0], result, style)
        for run in runs:
            if run.measured is not None:
                _draw_correlation(axes[1], run, colours[run.condition])
        _draw_chance(axes[1], result)
        for place, kind in ((2, "principal"), (3, "independent")):
            image = _draw_map(axes[place], result, kind)
        n_states = len(result.layers)
        for place, panel in enumerate(axes):
            panel.set_xlim(-0.5, n_states - 0.5)
            panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            panel.tick_params(labelbottom=place == 3, labelleft=column == 0, length=2)
        if column == 0:
            for panel, label in zip(axes, _labels(), strict=True):
                panel.set_ylabel(label)
        lines += axes[:2]
        maps += axes[2:]
    bar = canvas.colorbar(image, ax=maps, location="right", fraction=0.05, pad=0.02, aspect=14)
    bar.set_ticks([0, 0.5, 1], labels=["0", "0.5", "1"])
    bar.set_label("share between\npositions")
    bar.outline.set_linewidth(0.4)
    canvas.supxlabel("layer (0: embedding)", fontsize=style.font_size)
    common.legend_above(canvas, lines, columns=3)


def shown(runs: list[Run[PositionComponents]]) -> dict[str, list[Run[PositionComponents]]]:
    """The first conditions of the first data set, by model; the first is the intact model."""
    models: dict[str, list[Run[PositionComponents]]] = {}
    for run in runs:
        if run.dataset == runs[0].dataset and len(models.setdefault(run.model, [])) < CONDITIONS:
            models[run.model].append(run)
    return models


def _labels() -> list[str]:
    return [
        "share of\nvariance",
        "canonical\ncorrelation",
        "principal\ncomponent",
        "independent\ncomponent",
    ]


def _draw_variance(axes: Axes, result: PositionComponents, style: Style) -> None:
    layers = [layer.layer for layer in result.layers]
    shares = [layer.principal.cumulative_share for layer in result.layers]
    for number, colour in zip((*LEADING, result.components), style.palette[3:], strict=False):
        if number > result.components:
            continue
        name = "component" if number == 1 else "components"
        axes.plot(layers, [share[number - 1] for share in shares], color=colour, marker="s",
                  ms=2, label=f"{number} principal {name}")  # fmt: skip
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], labels=["0", "0.5", "1"])


def _draw_correlation(axes: Axes, run: Run[PositionComponents], colour: str) -> None:
    layers = [layer.layer for layer in run.result.layers]
    first = [layer.canonical.held_out[0] for layer in run.result.layers]
    axes.fill_between(
        layers, [estimate.low for estimate in first], [estimate.high for estimate in first],
        color=colour, alpha=0.25, lw=0,
    )  # fmt: skip
    axes.plot(layers, [estimate.value for estimate in first], color=colour, marker="o", ms=2.5,
              label=f"correlation, {common.display(run.condition)}")  # fmt: skip
    axes.set_ylim(-0.12, 1.05)
    axes.set_yticks([0, 0.5, 1], labels=["0", "0.5", "1"])


def _draw_chance(axes: Axes, result: PositionComponents) -> None:
    layers = [layer.layer for layer in result.layers]
    chance = [layer.canonical.shuffled[0] for layer in result.layers]
    axes.fill_between(
        layers, [estimate.low for estimate in chance], [estimate.high for estimate in chance],
        color=common.LIGHT, lw=0, zorder=0, label="shuffled positions",
    )  # fmt: skip


def _draw_map(axes: Axes, result: PositionComponents, kind: str) -> QuadMesh:
    shares = np.array([getattr(layer, kind).position_share for layer in result.layers]).T
    layers = np.arange(shares.shape[1] + 1) - 0.5
    numbers = np.arange(shares.shape[0] + 1) + 0.5
    image = axes.pcolormesh(
        layers, numbers, shares, cmap="viridis", vmin=0, vmax=1, rasterized=True
    )
    axes.set_ylim(numbers[-1], numbers[0])
    axes.set_yticks([1, result.components])
    axes.spines[:].set_visible(False)
    return image


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
