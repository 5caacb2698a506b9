"""Classes found in two mixed photographs, and the stage from which both can no longer be told."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.mixed_images.result import MixedPhotographs

DASHED = (0, (3, 1.2))
NETWORKS = {"trained": "trained", "untrained": "initial weights"}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw recall of classes against the mixing weight, and recall of pictures and gap by stage.

    Parameters
    ----------
    measurements : list of dict
        The measurement of mixed photographs.

    Returns
    -------
    Left: share of pairs whose two classes are among the highest, of all classes and of those of the
    pictures alone; dashed where outputs and not pictures are mixed; grey, share of pictures whose
    class is found where grey is mixed in. Middle: share of pairs that are the two nearest to the
    state of their average, by stage, of the trained network and of the same with its initial
    weights. Right: their distance from additive. Intervals are over pictures.
    """
    runs = of_kind(measurements, "mixed_images", MixedPhotographs)
    measured = common.measured(canvas, runs, "no measurement")
    if not measured:
        return
    result = measured[0].result
    left, middle, right = (canvas.add_subplot(1, 3, place) for place in (1, 2, 3))
    _classes(left, result, style)
    _stages(middle, result, "inputs", style)
    middle.set_title("both are the two nearest")
    middle.set_xlabel("share of pairs")
    middle.set_xlim(-0.04, 1.04)
    _stages(right, result, "gap", style)
    right.set_title("distance from additive")
    right.set_xlabel("relative to that of the two")
    right.set_xlim(left=-0.03)
    right.tick_params(labelleft=False)
    common.legend_above(canvas, (left, middle), columns=4)


def _classes(axes: Axes, result: MixedPhotographs, style: Style) -> None:
    entries = sorted(result.mixtures, key=lambda entry: entry.weight)
    weights = [entry.weight for entry in entries]
    kinds = [(recall.among, recall.top) for recall in entries[0].found]
    for index, (among, top) in enumerate(kinds):
        rows = [entry.found[index] for entry in entries]
        colour = style.palette[(2 + index) % len(style.palette)]
        of = "all classes" if among == "all" else "the pictures'"
        label = f"{top} highest of {of}"
        curve(axes, weights, [row.both for row in rows], color=colour, marker="o", ms=2.5,
              label=label)  # fmt: skip
        axes.plot(weights, [row.outputs.value for row in rows], color=colour, ls=DASHED, lw=0.9)
    axes.plot([], [], color=common.GREY, ls=DASHED, lw=0.9, label="outputs mixed")
    faded = [entry.faded[0] for entry in entries]
    curve(axes, weights, [row.share for row in faded], color=common.GREY, marker="s", ms=2.5,
          lw=0.9, label=f"{faded[0].top} highest, mixed with grey")  # fmt: skip
    known = result.published
    axes.plot(known.weight, known.both, color="black", marker="x", ms=5, ls="none",
              clip_on=False, label=f"{known.classifier}, published pair")  # fmt: skip
    axes.set_xticks(weights, [f"{tick:g}" for tick in weights])
    axes.set_ylim(-0.04, 1.04)
    axes.set_title("both classes are found")
    axes.set_xlabel("weight of the first picture")
    axes.set_ylabel("share of pairs")


def _stages(axes: Axes, result: MixedPhotographs, part: str, style: Style) -> None:
    names = [entry.stage for entry in result.stages]
    for colour, (network, label) in zip(style.palette, NETWORKS.items(), strict=False):
        estimates = [getattr(getattr(entry, network), part) for entry in result.stages]
        for row, estimate in enumerate(estimates):
            axes.plot([estimate.low, estimate.high], [row, row], color=colour, lw=2.5, alpha=0.3)
        axes.plot([estimate.value for estimate in estimates], range(len(names)), color=colour,
                  marker="o", ms=3, lw=0.9, label=label)  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.6, -0.4)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
