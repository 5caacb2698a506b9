"""How much of what positions were worth a mask recovers."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.conditions.groups import MASKED
from posenc.figures import common, evaluated
from posenc.figures.section import Figure, Style

LOWEST, HIGHEST = -0.6, 1.12
LEVELS = (0.0, 0.9, 1.0)


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the recovered share of the lost log-perplexity by mask, with a panel for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions; those of encoders are left out.

    Returns
    -------
    A mark with its interval for each decoder; a number beside an arrow where the share lies
    beyond the axis. A data set on which nothing is lost has no shares, and says so.
    """
    measured, reasons = evaluated.decoders(measurements)
    names = evaluated.rows(measured, *MASKED)
    if not names:
        common.not_run(made.add_subplot(), reasons or ["the study has no mask"], 60)
        return
    panels = evaluated.by_dataset(measured)
    shares = [any(map(evaluated.has_shares, runs)) for runs in panels.values()]
    layout = made.add_gridspec(1, len(panels), width_ratios=[2 if s else 1 for s in shares])
    first = None
    for place, runs in enumerate(panels.values()):
        axes = made.add_subplot(layout[place], sharey=first)
        axes.set_title(evaluated.panel_title(runs[0]) if len(runs) == 1 else
                       common.display(runs[0]["run"]["dataset"]))  # fmt: skip
        if shares[place]:
            _draw_panel(axes, runs, names, style)
        else:
            evaluated.nothing_is_lost(axes)
            axes.set_xticks([])
            axes.spines["bottom"].set_visible(False)
        first = evaluated.share_rows(axes, names, first)
        axes.spines["left"].set_visible(False)
    if any(shares):
        label = "share of the lost log-perplexity recovered"
        made.supxlabel(label, fontsize=style.font_size)
    if len(common.unique(one["run"]["model"] for one in measured)) > 1:
        common.legend_above(made, made.axes, columns=4)


def _draw_panel(axes: Axes, runs: list[dict], names: list, style: Style) -> None:
    for level in LEVELS:
        axes.axvline(level, color=common.GREY, lw=0.7, ls="--" if level == 0.9 else "-")
    colours, colour = evaluated.group_colours(style), ""
    for row, (name, is_heading) in enumerate(names):
        if is_heading:
            colour = colours[name]
            continue
        for order, measurement in enumerate(runs):
            share = evaluated.entries(measurement).get(name, {}).get("recovered")
            if share is None:
                continue
            # Side by side, so that marks of several decoders do not hide each other.
            height = row + 0.5 * ((order + 1) / (len(runs) + 1) - 0.5)
            evaluated.share(
                axes, share, height, (LOWEST, HIGHEST), colour,
                marker=common.MARKERS[order % len(common.MARKERS)], is_filled=order == 0,
                label=common.display(measurement["run"]["model"]),
            )  # fmt: skip
    axes.set_xlim(LOWEST, HIGHEST)
    axes.set_xticks([-0.5, 0, 0.5, 0.9, 1.0], ["−0.5", "0", "0.5", "0.9", "1"])


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
