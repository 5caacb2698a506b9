"""What single heads, and sets of heads, lose without rotation."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator, NullLocator

from posenc.artifacts.runs import by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.unrotated_heads.result import Rotations

CHOICES = {"strongest": "that cost most", "random": "at random", "weakest": "that cost least"}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the cost of each head, and of sets of heads, of the first model on its first text.

    Parameters
    ----------
    measurements : list of dict
        Measurements of unrotated heads.

    Returns
    -------
    Left: a map of layers and heads. Right: the share of the whole cost by the number of heads
    that lose rotation together, on documents that had no part in the choice of heads.
    """
    runs = common.measured(
        canvas, of_kind(measurements, "unrotated_heads", Rotations), "no rotary model was examined"
    )
    if not runs:
        return
    dataset, (run, *_) = next(iter(by_dataset(runs).items()))
    costs, sets = canvas.subplots(1, 2, width_ratios=(3, 2))
    _map(canvas, costs, run.result)
    _sets(sets, run.result, style)
    names = (run.model, dataset)
    canvas.suptitle(", ".join(map(common.display, names)), fontsize=style.font_size)


def costs_of(result: Rotations) -> np.ndarray:
    """What each head costs, in nats per token: [n_heads, n_layers]."""
    values = [entry.delta_nll.value for entry in result.heads]
    return np.reshape(values, (result.n_layers, result.n_heads)).T


def _map(canvas: Canvas, axes: Axes, result: Rotations) -> None:
    values = costs_of(result)
    largest = np.abs(values).max()
    image = axes.imshow(values, aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest)
    axes.set_xlabel("layer")
    axes.set_ylabel("head")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True))
    axes.spines[:].set_visible(False)
    bar = canvas.colorbar(image, ax=axes, location="top", aspect=30, pad=0.02)
    bar.set_label("lost without rotation of one head (nats per token)")
    bar.outline.set_linewidth(0.4)


def _sets(axes: Axes, result: Rotations, style: Style) -> None:
    for place, (choice, label) in enumerate(CHOICES.items()):
        entries = [entry for entry in result.sets if entry.choice == choice]
        counts = [entry.count for entry in entries]
        curve(
            axes, counts, [entry.share for entry in entries], color=style.palette[place],
            label=label, marker=common.MARKERS[place], ms=3, lw=1.1,
        )  # fmt: skip
    axes.axhline(0, color="0.75", lw=0.5, zorder=0)
    axes.set_xscale("log")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"heads without rotation, of {len(result.heads)}")
    axes.set_ylabel("share of what all heads lose")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
