"""What of position is in principal and independent components, by layer (C4)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style

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
    models = shown(measurements)
    if not any(runs[0]["status"] == "measured" for runs in models.values()):
        reasons = [runs[0]["reason"] for runs in models.values()]
        common.not_run(canvas.add_subplot(), reasons or ["the study has no components"], 60)
        return
    colours = common.condition_colours([run for runs in models.values() for run in runs], style)
    grid = canvas.add_gridspec(4, len(models))
    maps: list[Axes] = []
    lines: list[Axes] = []
    image = None
    for column, (model, runs) in enumerate(models.items()):
        if runs[0]["status"] != "measured":
            common.not_run(canvas.add_subplot(grid[:, column]), [runs[0]["reason"]], 22)
            continue
        axes = [canvas.add_subplot(grid[row, column]) for row in range(4)]
        axes[0].set_title(common.display(model))
        _draw_variance(axes[0], runs[0], style)
        for run in runs:
            if run["status"] == "measured":
                _draw_correlation(axes[1], run, colours[common.run_of(run)[2]])
        _draw_chance(axes[1], runs[0])
        for place, kind in ((2, "principal"), (3, "independent")):
            image = _draw_map(axes[place], runs[0], kind)
        n_states = len(runs[0]["layers"])
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


def shown(measurements: list[dict]) -> dict[str, list[dict]]:
    """The first conditions of the first data set, by model; the first is the intact model."""
    selected = [
        measurement for measurement in measurements if measurement["measurement"] == "components"
    ]
    datasets = common.unique(common.run_of(measurement)[1] for measurement in selected)
    models: dict[str, list[dict]] = {}
    for measurement in selected:
        model, dataset, _ = common.run_of(measurement)
        if dataset == datasets[0] and len(models.setdefault(model, [])) < CONDITIONS:
            models[model].append(measurement)
    return models


def _labels() -> list[str]:
    return [
        "share of\nvariance",
        "canonical\ncorrelation",
        "principal\ncomponent",
        "independent\ncomponent",
    ]


def _draw_variance(axes: Axes, run: dict, style: Style) -> None:
    layers = [layer["layer"] for layer in run["layers"]]
    shares = [layer["principal"]["cumulative_share"] for layer in run["layers"]]
    for number, colour in zip((*LEADING, run["components"]), style.palette[3:], strict=False):
        if number > run["components"]:
            continue
        name = "component" if number == 1 else "components"
        axes.plot(layers, [share[number - 1] for share in shares], color=colour, marker="s",
                  ms=2, label=f"{number} principal {name}")  # fmt: skip
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], labels=["0", "0.5", "1"])


def _draw_correlation(axes: Axes, run: dict, colour: str) -> None:
    layers = [layer["layer"] for layer in run["layers"]]
    first = [layer["canonical"]["held_out"][0] for layer in run["layers"]]
    axes.fill_between(
        layers, [estimate["low"] for estimate in first], [estimate["high"] for estimate in first],
        color=colour, alpha=0.25, lw=0,
    )  # fmt: skip
    axes.plot(layers, [estimate["value"] for estimate in first], color=colour, marker="o", ms=2.5,
              label=f"correlation, {common.display(common.run_of(run)[2])}")  # fmt: skip
    axes.set_ylim(-0.12, 1.05)
    axes.set_yticks([0, 0.5, 1], labels=["0", "0.5", "1"])


def _draw_chance(axes: Axes, run: dict) -> None:
    layers = [layer["layer"] for layer in run["layers"]]
    chance = [layer["canonical"]["shuffled"][0] for layer in run["layers"]]
    axes.fill_between(
        layers, [estimate["low"] for estimate in chance], [estimate["high"] for estimate in chance],
        color=common.LIGHT, lw=0, zorder=0, label="shuffled positions",
    )  # fmt: skip


def _draw_map(axes: Axes, run: dict, kind: str) -> QuadMesh:
    shares = np.array([layer[kind]["position_share"] for layer in run["layers"]]).T
    layers = np.arange(shares.shape[1] + 1) - 0.5
    numbers = np.arange(shares.shape[0] + 1) + 0.5
    image = axes.pcolormesh(
        layers, numbers, shares, cmap="viridis", vmin=0, vmax=1, rasterized=True
    )
    axes.set_ylim(numbers[-1], numbers[0])
    axes.set_yticks([1, run["components"]])
    axes.spines[:].set_visible(False)
    return image


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
