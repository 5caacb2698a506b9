"""What each head makes of positions alone: a mask by distance, and where the nearest look."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.position_heads.result import Head, PositionScores

REACH = 256
"""Distances that are shown, back, and ahead where a head sees the future."""
MARKED = 3
"""Heads of each kind that are marked: the steepest, and those of the first layer that look nearest,
which have a panel of their own."""
LIMIT = 3.5
"""Of the vertical axis, in standard deviations of a head's scores."""
ROW, LOWER = 0.45, 1.5
"""Inches of a row of heads, and of the panels below."""
SHARES = (0.25, 0.5, 1.0)
"""Explained shares of the scores whose shade the legend has."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the mask of each head, a row per layer, of whatever has the most heads.

    Parameters
    ----------
    measurements : list of dict
        Measurements of position_heads.

    Returns
    -------
    Curves in standard deviations of their head's scores within a query; the larger the share of
    the scores that a curve explains, the darker it is. Below, where the nearest heads of the first
    layer look, beside the mean of tables with shuffled rows.
    """
    runs = of_kind(measurements, "position_heads", PositionScores)
    measured = common.measured(canvas, runs, "no heads were measured")
    if not measured:
        return
    run = max(measured, key=lambda candidate: len(candidate.result.heads))
    result = run.result
    near = result.nearest(MARKED)
    # Panels of few layers are no higher than those of many.
    upper = 1.0 + ROW * result.n_layers
    canvas.set_figheight(min(figure.height, upper + LOWER * bool(near)))
    if near:
        grid, below = canvas.subfigures(2, 1, height_ratios=(upper, LOWER))
        _draw_near(below, near, result, style)
    else:
        grid = canvas
    _draw_grid(grid, run, [head for _, head in near], style)


def _draw_grid(
    place: Canvas | SubFigure, run: Run[PositionScores], near: list[Head], style: Style
) -> None:
    result = run.result
    panels = place.subplots(
        result.n_layers, result.n_heads, squeeze=False, sharex=True, sharey=True
    )
    steep = result.steepest(MARKED)
    for axes, head in zip(panels.flat, result.heads, strict=True):
        marks = [colour for colour, heads in ((1, steep), (2, near)) if head in heads]
        _panel(axes, head, style, marks)
    for number, axes in enumerate(panels[0]):
        axes.set_title(f"{number}", fontsize=common.SMALLEST_POINTS, pad=5)
    for number, axes in enumerate(panels[:, 0]):
        axes.set_ylabel(
            f"{number}", rotation=0, labelpad=6, va="center", fontsize=common.SMALLEST_POINTS
        )
    name = common.display(run.model)
    place.supxlabel("distance back from query to key (tokens)", fontsize=style.font_size)
    place.supylabel("mask by distance (SD of the scores)", fontsize=style.font_size)
    place.legend(
        handles=_entries(bool(near), style), loc="outside upper center", ncols=len(SHARES) + 2,
        title=f"{name}: heads, by layer (down) and number", title_fontsize=style.font_size,
        fontsize=common.SMALLEST_POINTS, columnspacing=1.2,
    )  # fmt: skip


def _entries(has_near: bool, style: Style) -> list[Line2D]:
    """What the colours of curves say."""
    of_marks = {"steepest": 1, **({"mean offset nearest 0": 2} if has_near else {})}
    return [
        *(Line2D([], [], color=style.palette[at], label=name) for name, at in of_marks.items()),
        *(
            Line2D([], [], color=style.palette[0], alpha=_shade(share), label=f"explains {share:g}")
            for share in SHARES
        ),
    ]


def _shade(share: float) -> float:
    """Opacity of a curve by the share of the scores that it explains."""
    return 0.25 + 0.75 * share


def _panel(axes: Axes, head: Head, style: Style, marks: list[int]) -> None:
    axes.axhline(0, color=common.LIGHT, lw=0.4, zorder=0)
    if head.distance_share is not None:
        axes.plot(*shown_curve(head), lw=0.9,
                  color=style.palette[marks[0] if marks else 0],
                  alpha=1 if marks else _shade(head.distance_share))  # fmt: skip
    axes.set_ylim(-LIMIT, LIMIT)
    axes.set_xticks([0, REACH])
    axes.set_yticks([-2, 0, 2], ["\u22122", "0", "2"])
    axes.tick_params(labelsize=common.SMALLEST_POINTS, length=1.5, pad=1)


def shown_curve(head: Head) -> tuple[np.ndarray, np.ndarray]:
    """Distances back from query to key, [distances], and a head's mask in SD of its scores."""
    curve = np.array(head.distances.bias)  # [distances]
    distance = head.distances.begin + np.arange(len(curve))  # [distances]
    shown = np.abs(distance) <= REACH  # [distances]
    return distance[shown], curve[shown] / head.deviation


def _draw_near(
    place: SubFigure, near: list[tuple[float, Head]], result: PositionScores, style: Style
) -> None:
    """Attention by offset of the heads that look nearest."""
    panels = place.subplots(1, len(near), squeeze=False, sharey=True)[0]
    half = len(result.uniform) // 2
    offsets = np.arange(-half, half + 1)[: half + 1 if result.is_causal else None]
    for axes, (offset, head) in zip(panels, near, strict=True):
        for label, mass, options in (
            ("this table", head.profile.mass, {"color": style.palette[2], "marker": "o"}),
            ("rows shuffled", head.nulls["shuffled"].mass, {"color": style.palette[6]}),
            ("all keys alike", result.uniform, {"color": style.palette[6], "ls": ":"}),
        ):
            axes.plot(offsets, mass[: len(offsets)], label=label, lw=0.9, ms=2.5, **options)
        mean = f"{round(offset, 2) + 0.0:.2f}".replace("-", "\u2212")  # no negative zero
        axes.set_title(
            f"layer 0, head {head.head}: mean offset {mean}", fontsize=common.SMALLEST_POINTS + 1
        )
    panels[0].set_ylim(bottom=0)  # after all are drawn, so that the shared axis holds them all
    panels[0].set_ylabel("attention")
    panels[-1].legend(loc="upper left", frameon=False, fontsize=common.SMALLEST_POINTS)
    place.supxlabel("offset, key minus query (tokens)", fontsize=style.font_size)


@common.slide(2.25, 1.6)
def for_slides(canvas: Canvas, measurements: list[dict], style: Style) -> None:
    """Draw the mask by distance of the steepest head of whatever has the most heads."""
    axes = canvas.add_subplot()
    runs = of_kind(measurements, "position_heads", PositionScores)
    measured = [run.measured for run in runs if run.measured is not None]
    result = max(measured, key=lambda candidate: len(candidate.heads), default=None)
    steep = result.steepest(1) if result else []
    if not steep:
        axes.set_axis_off()
        return
    axes.plot(*shown_curve(steep[0]), color=style.palette[0])
    axes.axhline(0, color=common.LIGHT, lw=0.6, zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(3))


main = command(draw, Figure, for_slides=for_slides)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
