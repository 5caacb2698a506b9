"""Recall of two mixed images and of two mixed embeddings, and how far classifiers are additive."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.experiments.superposition.result import Superposition
from posenc.measurements.embedding_sums.result import Recalls
from posenc.metrics.superposition import W

NAMES = {
    "relu": "residual network",
    "affine": "trained without ReLUs",
    "logistic_regression": "logistic regression",
}
WITHOUT = "ReLUs taken out"
MOST_TICKS = 6


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw recall of both against the mixing weight, the gap by stage, and recall by dimensions.

    Parameters
    ----------
    measurements : list of dict
        Measurements of superposition and of embedding_sums.

    Returns
    -------
    Above, of images. Left: share of pairs whose two classes are the two highest, by classifier,
    with intervals over seeds; dashed where outputs and not images are mixed. Right: distance from
    additive at the most even weight. Below, share of pairs of token embeddings that have the two
    highest cosines with their mixture at that weight, by model, and dashed in a Gaussian table.
    """
    left, middle, right = (canvas.add_subplot(2, 2, place) for place in (1, 2, 3))
    images = of_kind(measurements, "superposition", Superposition)
    sums = of_kind(measurements, "embedding_sums", Recalls)
    colours = dict(zip((*NAMES, "without_relu"), style.palette, strict=False))
    if images and images[0].measured is not None:
        _images(left, images[0].result, colours)
        _additive(middle, images[0].result, colours)
    else:
        reasons = [run.reason for run in images] or ["no measurement"]
        for axes in (left, middle):
            common.not_run(axes, reasons, 22)
    measured = [run for run in sums if run.measured is not None]
    if measured:
        _embeddings(right, measured, style)
    else:
        reasons = [run.reason for run in sums] or ["no measurement"]
        common.not_run(right, reasons, 22)
    common.legend_above(canvas, (left, middle), columns=4)
    if measured:
        # Beside its panel, in the room of a fourth.
        beside = right.legend(loc="center left", bbox_to_anchor=(1.05, 0.5))
        beside.set_in_layout(False)


def _most_even(entries: Sequence[W]) -> W:
    """The entry whose mixing weight is nearest to one half."""
    return min(entries, key=lambda entry: abs(entry.weight - 0.5))


def _images(axes: Axes, result: Superposition, colours: dict[str, str]) -> None:
    weights = [entry.weight for entry in result.classifiers[0].mixtures]
    for classifier in result.classifiers:
        colour, name = colours[classifier.name], NAMES[classifier.name]
        inputs = [entry.inputs.both for entry in classifier.mixtures]
        curve(axes, weights, inputs, color=colour, marker="o", ms=2.5, label=name)
        if classifier.name == "relu":
            outputs = [entry.outputs.both for entry in classifier.mixtures]
            curve(axes, weights, outputs, color=colour, ls=(0, (3, 1.2)), lw=0.9,
                  label="its outputs mixed")  # fmt: skip
    guess = result.chance
    axes.axhline(guess.other, color=common.GREY, ls="--", lw=0.7, label="chance, one known")
    axes.axhline(guess.both, color=common.GREY, ls=":", lw=0.9, label="chance")
    ticks = weights[:: math.ceil(len(weights) / MOST_TICKS)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylim(-0.04, 1.04)
    axes.set_title("two images in one")
    axes.set_xlabel("weight of the first image")
    axes.set_ylabel("share of pairs, both found")


def _additive(axes: Axes, result: Superposition, colours: dict[str, str]) -> None:
    """Gaps by stage; those of affine maps are rounding."""
    shown = {
        classifier.name: _most_even(classifier.mixtures).gap for classifier in result.classifiers
    }
    taken = _most_even(result.without_relu)
    shown["without_relu"] = taken.gap
    stages = list(shown["relu"])
    # Those that lie on each other at 0 are told apart by their sizes.
    for index, (name, gap) in enumerate(shown.items()):
        rows = [stages.index(stage) for stage in gap]
        for row, estimate in zip(rows, gap.values(), strict=True):
            ends = [estimate.low, estimate.high]
            axes.plot(ends, [row, row], color=colours[name], lw=2.5, alpha=0.3)
        values = [estimate.value for estimate in gap.values()]
        label = {**NAMES, "without_relu": WITHOUT}[name]
        axes.plot(values, rows, color=colours[name], marker="o", lw=0.9,
                  ms=3 if name == "relu" else 7.5 - 1.7 * index, label=label)  # fmt: skip
    axes.set_xlim(left=-0.1)
    axes.set_yticks(range(len(stages)), stages)
    axes.set_ylim(len(stages) - 0.6, -0.4)
    axes.set_title("distance from additive")
    largest = f"{result.affine_gap:.0e}".replace("-", "\N{MINUS SIGN}")
    weight = f"relative gap at weight {taken.weight:g}"
    axes.set_xlabel(f"{weight}\n(affine maps: up to about {largest})")


def _embeddings(axes: Axes, measured: list[Run[Recalls]], style: Style) -> None:
    widths: set[int] = set()
    for index, run in enumerate(measured):
        colour = style.palette[(4 + index) % len(style.palette)]
        for table, look in (
            (run.result.gaussian, {"ls": (0, (3, 1.2)), "lw": 0.9}),
            (run.result.model, {"marker": "o", "ms": 2.5, "label": common.display(run.model)}),
        ):
            xs = [entry.dimensions for entry in table]
            recalls = [_most_even(entry.weights).cosine.both for entry in table]
            curve(axes, xs, recalls, color=colour, **look)
            widths |= set(xs)
        (centred,) = run.result.centred
        estimate = _most_even(centred.weights).cosine.both
        axes.plot(centred.dimensions, estimate.value, color=colour, marker="D", ms=4,
                  mfc="none", ls="none")  # fmt: skip
    axes.plot([], [], color=common.GREY, marker="D", ms=4, mfc="none", ls="none",
              label="mean row subtracted")  # fmt: skip
    axes.plot([], [], color=common.GREY, ls=(0, (3, 1.2)), lw=0.9, label="Gaussian table")
    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(2, 11, 2) if min(widths) <= 2**power <= max(widths)]
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.04, 1.04)
    weight = _most_even(measured[0].result.model[0].weights).weight
    axes.set_title("two token embeddings in one")
    axes.set_xlabel(f"dimensions (at weight {weight:g})")
    axes.set_ylabel("share of pairs, both found")


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
