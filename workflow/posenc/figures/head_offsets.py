"""Where heads look: attention mass on text by offset, intact and without positions."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.heads.result import Attention

ZERO = "zero"
NAMES = ("previous token", "next token", "self", "first token", "special token", "near", "broad")
"""Types of heads in the order of their colours; those of other offsets share one more."""
ABREAST = 2
"""Models side by side."""
LEAST = 0.01
"""The least mass that is told from none: most heads read many offsets a little."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the mass of heads on text by offset, one row per head, and a strip of the heads' types.

    Parameters
    ----------
    measurements : list of dict
        Measurements of heads; of each model the first data set is shown.

    Returns
    -------
    Two heat maps for each model: the intact one, and the one without positions.
    """
    shown = panels(of_kind(measurements, "heads", Attention))
    measured = [run.result for pair in shown for run in pair if run.measured is not None]
    if not measured:
        reasons = [run.reason for pair in shown for run in pair]
        common.not_run(canvas.add_subplot(), reasons or ["no heads were measured"], 60)
        return
    colours = type_colours(style)
    columns = min(ABREAST, len(shown))
    rows = math.ceil(len(shown) / columns)
    grid = canvas.add_gridspec(rows, columns + 1, width_ratios=(20,) * columns + (1,))
    image = None
    for place, pair in enumerate(shown):
        inner = grid[place // columns, place % columns].subgridspec(
            1, 2 * len(pair), width_ratios=(1, 14) * len(pair), wspace=0.03
        )
        for index, run in enumerate(pair):
            heat = canvas.add_subplot(inner[0, 2 * index + 1])
            if run.measured is None:
                common.not_run(heat, [run.reason], 18)
                continue
            strip = canvas.add_subplot(inner[0, 2 * index])
            image = _masses(heat, run)
            _types(strip, run.measured, colours)
            if place % columns == 0 and index == 0:
                strip.set_ylabel("layer")
            if index:
                strip.set_yticks([])
    bar = canvas.colorbar(image, cax=canvas.add_subplot(grid[:, columns]))
    bar.set_ticks([LEAST, 0.03, 0.1, 0.3, 1], labels=["≤ 0.01", "0.03", "0.1", "0.3", "1"])
    bar.ax.minorticks_off()
    bar.set_label("attention mass on text (logarithmic)")
    bar.outline.set_linewidth(0.4)
    canvas.supxlabel("offset, key - query (tokens)", fontsize=style.font_size)
    _legend(canvas, measured, colours)


def panels(runs: list[Run[Attention]]) -> list[list[Run[Attention]]]:
    """The first data set of each model: its intact run, and the one without positions."""
    pairs: dict[str, list[Run[Attention]]] = {}
    for run in runs:
        pair = pairs.setdefault(run.model, [])
        is_same = not pair or pair[0].dataset == run.dataset
        if is_same and run.condition in (common.INTACT, ZERO):
            pair.append(run)
    return [pair for pair in pairs.values() if pair]


def type_colours(style: Style) -> dict[str, str]:
    """A colour for each type of heads; broad ones are light grey."""
    colours = dict(zip(NAMES[:-1], style.palette, strict=False))
    return {**colours, "other offset": "black", "broad": common.LIGHT}


def plain_type(name: str) -> str:
    """The name of a type without its number; all other offsets share one."""
    plain = next((kind for kind in NAMES if name.startswith(kind)), None)
    return plain or "other offset"


def _masses(axes: Axes, run: Run[Attention]) -> AxesImage:
    result, offsets = run.result, run.result.offsets
    mass = np.array([head.text for head in result.heads])  # [heads, offsets]
    image = axes.imshow(
        mass, aspect="auto", interpolation="nearest", cmap="magma",
        norm=LogNorm(LEAST, 1, clip=True),
        extent=(offsets[0] - 0.5, offsets[-1] + 0.5, len(mass) - 0.5, -0.5),
    )  # fmt: skip
    common.label_layers(axes, result.n_layers, result.n_heads)
    axes.set_yticks([])
    common.label_offsets(axes, offsets, result.is_causal)
    model, dataset, condition = map(common.display, (run.model, run.dataset, run.condition))
    first = run.condition == common.INTACT
    axes.set_title(f"{model}\n{dataset}" if first else f"\n{condition}", loc="left")
    return image


def _types(axes: Axes, result: Attention, colours: dict[str, str]) -> None:
    names = list(colours)
    kinds = [names.index(plain_type(head.type)) for head in result.heads]
    axes.imshow(
        np.array(kinds)[:, None], aspect="auto", interpolation="nearest",
        cmap=ListedColormap(list(colours.values())), vmin=-0.5, vmax=len(names) - 0.5,
        extent=(0, 1, len(kinds) - 0.5, -0.5),
    )  # fmt: skip
    common.label_layers(axes, result.n_layers, result.n_heads)
    axes.set_xticks([])


def _legend(figure: Canvas, results: list[Attention], colours: dict[str, str]) -> None:
    used = {plain_type(head.type) for result in results for head in result.heads}
    figure.legend(
        handles=[Patch(color=c, label=name) for name, c in colours.items() if name in used],
        loc="outside upper center", ncols=8, borderaxespad=0.2, columnspacing=1.2,
        handlelength=1,
    )  # fmt: skip


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
