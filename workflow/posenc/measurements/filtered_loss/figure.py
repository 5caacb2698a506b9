"""What a model loses when queries and keys keep one band of frequencies, or lose it (C2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import band_name, curve, share_rows
from posenc.drawing.section import Figure, Style
from posenc.measurements.filtered_loss.result import Difference, Filter, FilteredLoss

WAYS = {"left_out": "all but", "kept": "only"}
PARTS = {
    "cost": "the band",
    "random": "as many directions at random",
    "scaled": "as much of the length",
}
SHIFTS = (-0.22, 0.0, 0.22)


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw what each filter costs in all layers, and what each band costs in one, by model.

    Parameters
    ----------
    measurements : list of dict
        Measurements of filtered losses.

    Returns
    -------
    On the headline data set, a column for each model: lost nats per token of a decoder, 1 minus
    the cosine of an encoder's last states with the intact ones. Above: filters in all layers, and
    their controls. Below: what is lost when one layer lacks a band, by layer, and (dotted) as many
    directions at random.
    """
    rows = by_dataset(of_kind(measurements, "filtered_loss", FilteredLoss))
    if not rows:
        common.not_run(canvas.add_subplot(), ["no queries and keys were filtered"], 60)
        return
    dataset, shown = next(iter(rows.items()))
    grid = canvas.add_gridspec(2, len(shown), height_ratios=(3, 2))
    first, panels = None, []
    for place, run in enumerate(shown):
        result = run.result
        entries = [entry for way in WAYS for entry in result.filters if entry.way == way]
        above = canvas.add_subplot(grid[0, place], sharey=first)
        names = [(name_of(result, entry), False) for entry in entries]
        first = share_rows(above, names, first)
        _filters(above, entries, style)
        # The names of the filters take the room of two columns.
        columns = len(shown) + 2
        above.set_title(common.title(canvas, run.model, columns))
        what = "lost nats per token" if result.is_causal else "1 − cosine with intact"
        above.set_xlabel(common.title(canvas, what, columns))
        above.xaxis.set_major_locator(MaxNLocator(4 if columns < 6 else 2))
        below = canvas.add_subplot(grid[1, place])
        _layers(below, result, entries, style)
        panels += [above, below]
    below = panels[1]
    below.set_ylabel("lost by one layer")
    common.legend_above(canvas, panels[:2], columns=4)
    canvas.supxlabel(f"({common.display(dataset)})", fontsize=style.font_size)


def name_of(result: FilteredLoss, entry: Filter) -> str:
    """A filter in words, with the limits of its band."""
    band = entry.band if isinstance(entry.band, int) else None
    return f"{WAYS[entry.way]} {'the mean' if band is None else band_name(result.bands, band)}"


def lost(difference: Difference) -> Interval:
    """What is shown of a difference: a decoder is judged by its loss."""
    return difference.delta_nll or difference.distance


def _filters(axes: Axes, entries: list[Filter], style: Style) -> None:
    axes.axvline(0, color="0.75", lw=0.5, zorder=0)
    for place, (part, label) in enumerate(PARTS.items()):
        colour = common.GREY if part == "cost" else style.palette[place + 3]
        estimates = [lost(getattr(entry, part)) for entry in entries]
        rows = [row + SHIFTS[place] for row in range(len(estimates))]
        axes.hlines(rows, [e.low for e in estimates], [e.high for e in estimates], colour, lw=1)
        axes.plot([e.value for e in estimates], rows, color=colour, ls="none", ms=3, mew=0.7,
                  marker=common.MARKERS[place], mfc=colour if part == "cost" else "white",
                  label=label)  # fmt: skip


def _layers(axes: Axes, result: FilteredLoss, entries: list[Filter], style: Style) -> None:
    for place, entry in enumerate(e for e in entries if e.way == "left_out"):
        colour = style.palette[place % len(style.palette)]
        layers = [row.layer for row in entry.layers]
        for part, look in (
            ("cost", {"label": name_of(result, entry)}),
            ("random", {"ls": ":"}),
        ):
            estimates = [lost(getattr(row, part)) for row in entry.layers]
            marker = {"marker": "o", "ms": 2.2} if part == "cost" else {}
            curve(axes, layers, estimates, color=colour, lw=1.0, **look, **marker)
    axes.axhline(0, color="0.75", lw=0.5, zorder=0)
    axes.set_xlabel("layer")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
