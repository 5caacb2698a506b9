"""What weights and positions alone say about offsets: all heads, and their pairs of signals."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.image import AxesImage

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.relative_attention.result import RelativeOffsets

LARGEST_POINT = 60.0
"""Area of the largest contribution, square points."""
LINEAR_LAG = 3.0
"""Up to this lag, in tokens, the axis of lags is linear."""
LARGEST_PREFERENCE = 3.0
"""Where the colours end: 20 times as much, or as little, as a uniform pattern."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw, for each model, what each head prefers by offset, and the lags of its pairs.

    Parameters
    ----------
    measurements : list of dict
        Measurements of relative attention.

    Returns
    -------
    Above, a heat map whose rows are the heads, layer after layer: the mass that positions alone
    would give to an offset, over that of a uniform pattern; a dot marks the highest score.
    Below, a circle for each pair of signals, as large as its contribution.
    """
    runs = common.measured(
        canvas,
        of_kind(measurements, "relative_attention", RelativeOffsets),
        "no model was measured",
    )
    if not runs:
        return
    grid = canvas.add_gridspec(2, len(runs), height_ratios=(3, 2))
    rows = max(run.result.rows for run in runs)
    panels, image = [], None
    for column, run in enumerate(runs):
        above, below = (canvas.add_subplot(grid[row, column]) for row in (0, 1))
        panels.append(above)
        image = _preferences(above, run)
        _pairs(below, run.result, rows, style)
        below.tick_params(labelleft=column == 0)
        if column == 0:
            above.set_ylabel("layer")
            below.set_ylabel("lag (tokens)")
    bar = canvas.colorbar(image, ax=panels, location="right", aspect=25, pad=0.015, extend="both")
    bar.set_label("log preference (nats)")
    bar.outline.set_linewidth(0.4)
    canvas.supxlabel("frequency (cycles per token)", fontsize=style.font_size)
    common.legend_above(canvas, canvas.axes, columns=2)


def _preferences(axes: Axes, run: Run[RelativeOffsets]) -> AxesImage:
    result = run.result
    offsets = result.offsets
    # [heads, offsets]
    values = np.array([head.profile.preference for head in result.heads], float)
    image = axes.imshow(
        values, aspect="auto", interpolation="nearest", cmap="RdBu_r",
        vmin=-LARGEST_PREFERENCE, vmax=LARGEST_PREFERENCE,
        extent=(offsets[0] - 0.5, offsets[-1] + 0.5, len(values) - 0.5, -0.5),
    )  # fmt: skip
    axes.plot(
        [head.predicted_lag for head in result.heads], range(len(values)), ".",
        color="black", ms=1.8, ls="none",
    )  # fmt: skip
    common.label_layers(axes, result.n_layers, result.n_heads, common.GREY)
    common.label_offsets(axes, offsets, result.is_causal)
    axes.set_xlabel("offset (tokens)", labelpad=1)
    axes.set_title(common.display(run.model))
    return image


def _pairs(axes: Axes, result: RelativeOffsets, rows: int, style: Style) -> None:
    pairs = [(head.layer, pair) for head in result.heads for pair in head.pairs]
    largest = max(pair.contribution for _, pair in pairs) or 1.0
    for is_first, colour, label in (
        (False, common.GREY, "pairs of later layers"),
        (True, style.palette[1], "pairs of layer 0"),
    ):
        chosen = [pair for layer, pair in pairs if (layer == 0) == is_first]
        axes.scatter(
            [pair.frequency for pair in chosen], [pair.lag for pair in chosen],
            s=[max(0.5, LARGEST_POINT * pair.contribution / largest) for pair in chosen],
            color=colour, alpha=0.45, lw=0, label=label,
        )  # fmt: skip
    lowest = 0.4 / rows
    axes.set_xscale("log")
    axes.set_xlim(lowest, 0.6)
    # A lag is known up to a period: it lies within half of one.
    frequency = np.geomspace(lowest, 0.6, 100)
    for sign in (-1, 1):
        axes.plot(frequency, sign / (2 * frequency), color=common.LIGHT, lw=0.8, zorder=0)
    axes.axhline(0, color=common.LIGHT, lw=0.6, zorder=0)
    axes.set_yscale("symlog", linthresh=LINEAR_LAG, linscale=1.2)
    ticks = [-100, -10, 0, 10, 100]
    axes.set_yticks(ticks, [str(tick).replace("-", "\u2212") for tick in ticks])
    axes.set_ylim(-rows, rows)
    frequencies = [tick for tick in (0.01, 0.1) if tick > lowest]
    axes.set_xticks(frequencies, [f"{tick:g}" for tick in frequencies])
    axes.minorticks_off()
    period = axes.secondary_xaxis("top", functions=(_inverse, _inverse))
    shown = [tick for tick in (3, 10, 100) if tick < 1 / lowest]
    period.set_xticks(shown, list(map(str, shown)))
    period.minorticks_off()
    period.set_xlabel("period (tokens)", labelpad=2)
    period.spines[:].set_visible(False)


def _inverse(value: np.ndarray) -> np.ndarray:
    """Frequency to period and back; matplotlib asks for 0, too."""
    with np.errstate(divide="ignore"):
        return 1 / np.asarray(value, float)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
