"""What each head makes of positions alone, as a mask by distance."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.figures import common
from posenc.figures.evaluated import of_kind
from posenc.figures.section import Figure, Style
from posenc.metrics.position_scores import steepest

REACH = 256
"""Distances that are shown, back, and ahead where a head sees the future."""
MARKED = 3
"""Heads that are marked: those whose mask by distance is the steepest."""
LIMIT = 3.5
"""Of the vertical axis, in standard deviations of a head's scores."""


def draw(measurements: list[dict], figure: Figure, style: Style) -> Canvas:
    """Draw the mask of each head, a row per layer, of whatever has the most heads.

    Parameters
    ----------
    measurements : list of dict
        Measurements of position_heads.
    figure, style
        Sections of params.yaml.

    Returns
    -------
    matplotlib.figure.Figure
        Curves in standard deviations of their head's scores within a query, which the number in
        the panel gives in nats; the darker, the more of the scores the distance explains.
    """
    with common.styled(style):
        made = common.canvas(figure)
        found = of_kind(measurements, "position_heads")
        measured = [one for one in found if one["status"] == "measured"]
        if not measured:
            reasons = [one["reason"] for one in found]
            common.not_run(made.add_subplot(), reasons or ["no heads were measured"], 60)
            return made
        one = max(measured, key=lambda one: len(one["heads"]))
        rows, columns = one["n_layers"], one["n_heads"]
        # Panels of few layers are no higher than those of many.
        made.set_figheight(min(figure.height, 0.75 * rows + 1.2))
        panels = made.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        marked = steepest(one["heads"], MARKED)
        for axes, head in zip(panels.flat, one["heads"], strict=True):
            _panel(axes, head, style, head in marked)
        for number, axes in enumerate(panels[0]):
            axes.set_title(f"{number}", fontsize=common.SMALLEST_POINTS, pad=2)
        for number, axes in enumerate(panels[:, 0]):
            axes.set_ylabel(f"{number}", rotation=0, labelpad=6, va="center",
                            fontsize=common.SMALLEST_POINTS)  # fmt: skip
        name = common.display(one["subject"])
        made.suptitle(f"{name}: heads, by layer (down) and number", fontsize=style.font_size)
        made.supxlabel("distance back from query to key (tokens)", fontsize=style.font_size)
        made.supylabel("mask by distance (SD of the scores)", fontsize=style.font_size)
        return made


def _panel(axes: Axes, head: dict, style: Style, is_marked: bool) -> None:
    curve = np.array(head["distances"]["bias"])  # [distances]
    distance = head["distances"]["from"] + np.arange(len(curve))  # [distances]
    near = np.abs(distance) <= REACH  # [distances]
    axes.axhline(0, color=common.LIGHT, lw=0.4, zorder=0)
    if head["distance_share"] is not None:
        shade = 0.25 + 0.75 * head["distance_share"]
        colour = style.palette[1 if is_marked else 0]
        axes.plot(distance[near], curve[near] / head["deviation"], color=colour, lw=0.9,
                  alpha=1 if is_marked else shade)  # fmt: skip
        axes.text(0.97, 0.03, common.plain_number(float(f"{head['deviation']:.2g}")),
                  transform=axes.transAxes, ha="right", va="bottom",
                  fontsize=common.SMALLEST_POINTS)  # fmt: skip
    axes.set_ylim(-LIMIT, LIMIT)
    axes.set_xticks([0, REACH])
    axes.set_yticks([-2, 0, 2], ["\u22122", "0", "2"])
    axes.tick_params(labelsize=common.SMALLEST_POINTS, length=1.5, pad=1)


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
