"""What masks recover of what positions are worth, against the size of the model."""

from __future__ import annotations

import math
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import Run, by_dataset, of_kind
from posenc.conditions.positions import ROTATION, TABLE
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.figures.conditions import decoders, entries
from posenc.measurements.conditions.result import EvaluatedConditions
from posenc.measurements.savings.result import Savings

ENDS = (common.INTACT, "zero")
"""Conditions that shares lie between."""
FEWEST = 2
"""Models to compare, at least."""
NEAR = 0.06
"""Part of the axis on which two names do not fit beside each other."""
MARGIN = 1.6
"""Factor by which the axis extends beyond the smallest and the largest model."""
LOWEST, HIGHEST = -0.42, 1.12


class Decoder(NamedTuple):
    """A decoder, and what it recovers under each condition of which there is a share.

    Attributes
    ----------
    size
        Its parameters.
    model
        Its name.
    shares
        By condition.
    """

    size: int
    model: str
    shares: dict[str, Interval]


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the recovered share of each condition against parameters, a panel for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions, and of ``savings``, which counts parameters.

    Returns
    -------
    A point with its interval for each decoder and condition that two decoders have, the decoders
    named below with their size; a mark at the edge where the share lies beyond the axis.
    """
    sizes = {
        run.model: run.result.parameters.all
        for run in of_kind(measurements, "savings", Savings)
        if run.measured is not None
    }
    decoder_runs = [run for kind in (TABLE, ROTATION) for run in decoders(measurements, kind)[0]]
    panels = {
        dataset: sorted((_decoder(run, sizes) for run in runs), key=lambda of: of.size)
        for dataset, runs in by_dataset([run for run in decoder_runs if run.model in sizes]).items()
        if len(runs) >= FEWEST
    }
    if not panels:
        why = f"fewer than {FEWEST} decoders of this study have counted parameters"
        common.not_run(canvas.add_subplot(), [why], 60)
        return
    names = _compared([decoder for panel in panels.values() for decoder in panel])
    rows = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (dataset, panel) in zip(rows, panels.items(), strict=True):
        _panel(axes, panel, names, style)
        axes.set_title(common.display(dataset))
    rows[0].set_ylabel("share recovered")
    common.legend_above(canvas, rows, columns=2)


def _decoder(run: Run[EvaluatedConditions], sizes: dict[str, int]) -> Decoder:
    shares = {name: entry.recovered for name, entry in entries(run).items() if entry.recovered}
    return Decoder(sizes[run.model], run.model, shares)


def _compared(points: list[Decoder]) -> list[str]:
    """Conditions whose share two models have: those of the most models, one for each mark."""
    models: dict[str, set[str]] = {}
    for decoder in points:
        for name in decoder.shares:
            if name not in ENDS:
                models.setdefault(name, set()).add(decoder.model)
    conditions = [name for name, of in models.items() if len(of) >= FEWEST]
    return sorted(conditions, key=lambda name: -len(models[name]))[: len(common.MARKERS)]


def _panel(axes: Axes, points: list[Decoder], names: list[str], style: Style) -> None:
    for level in (0.0, 1.0):
        axes.axhline(level, color=common.GREY, lw=0.7)
    axes.set_xscale("log")
    for place, name in enumerate(names):
        there = [(of.size, of.shares[name]) for of in points if name in of.shares]
        marks = [min(max(share.value, LOWEST), HIGHEST) for _, share in there]
        colour = style.palette[place % len(style.palette)]
        axes.plot(
            [size for size, _ in there], marks, color=colour, ls="", ms=3.5,
            marker=common.MARKERS[place % len(common.MARKERS)], label=common.display(name),
        )  # fmt: skip
        for size, share in there:
            axes.plot([size, size], [share.low, share.high], color=colour, lw=0.8)
    axes.set_ylim(LOWEST, HIGHEST)
    sizes = [decoder.size for decoder in points]
    axes.set_xlim(sizes[0] / MARGIN, sizes[-1] * MARGIN)
    groups = _named([(decoder.size, decoder.model) for decoder in points])
    axes.set_xticks(
        [size for size, _ in groups],
        [f"{name}, {_millions(size)} M" for size, name in groups],
        rotation=90,
        fontsize=common.SMALLEST_POINTS,
    )
    axes.minorticks_off()


def _millions(size: int) -> str:
    return f"{size / 1e6:,.0f}" if size >= 1e7 else f"{size / 1e6:.2g}"


def _named(models: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """A name at each size, from the smallest; models of nearly one size share a place."""
    groups: list[tuple[int, list[str]]] = []
    reach = math.log(models[-1][0] / models[0][0]) + 2 * math.log(MARGIN)
    for size, model in models:
        if groups and math.log(size / groups[-1][0]) <= NEAR * reach:
            groups[-1][1].append(common.display(model))
        else:
            groups.append((size, [common.display(model)]))
    return [
        (size, names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more")
        for size, names in groups
    ]


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
