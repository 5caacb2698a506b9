"""How many keys attention reads, by layer and length, and what reading only a few costs."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator, StrMethodFormatter

from posenc.artifacts.results import Interval
from posenc.artifacts.runs import by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.effective_keys.result import EffectiveKeys, Reading

SERIES = {"keys": "all keys", "others": "without the first key"}
CHOICES = {"strongest": "strongest keys", "nearest": "nearest",
           "first_nearest": "first and nearest", "random": "random"}  # fmt: skip
MARKERS = dict(zip(CHOICES, common.MARKERS, strict=False))


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw effective keys by layer and by length, and what reading a few costs, a column per model.

    Parameters
    ----------
    measurements : list of dict
        Measurements of effective keys.

    Returns
    -------
    On the headline data set. Above: effective keys of all heads of a layer, and how many keys
    a query sees (dotted). In the middle: effective keys of queries that see so many keys, and all
    of these (dotted). Below: how far a model that reads so many keys is from the intact one, in
    nats per token of a decoder, and as 1 minus the cosine of an encoder's last states.
    """
    rows = by_dataset(of_kind(measurements, "effective_keys", EffectiveKeys))
    if not rows:
        common.not_run(canvas.add_subplot(), ["no attention was measured"], 60)
        return
    dataset, shown = next(iter(rows.items()))
    panels = canvas.subplots(3, len(shown), squeeze=False)
    for place, run in enumerate(shown):
        _by_layer(panels[0, place], run.result, style)
        panels[0, place].set_title(common.title(canvas, run.model, len(shown)))
        common.layer_ticks(panels[0, place], len(shown))
        _by_length(panels[1, place], run.result, style)
        _costs(panels[2, place], run.result, style)
    for row, label in zip(panels, ("layer", "keys seen", "keys read"), strict=True):
        for axes in row:
            axes.set_xlabel(label)
    for axes in panels[:2, 0]:
        axes.set_ylabel("effective keys")
    first: dict[bool, Axes] = {}
    for axes, run in zip(panels[2], shown, strict=True):
        is_causal = run.result.is_causal
        if first.setdefault(is_causal, axes) is axes:
            axes.set_ylabel("lost nats per token" if is_causal else "1 − cosine with intact")
    common.legend_above(canvas, panels[:, 0], columns=len(SERIES) + len(CHOICES))
    canvas.supxlabel(f"({common.display(dataset)})", fontsize=style.font_size)


def _by_layer(axes: Axes, result: EffectiveKeys, style: Style) -> None:
    layers = [row.layer for row in result.layers]
    for colour, (name, label) in zip(style.palette, SERIES.items(), strict=False):
        estimates = [getattr(row, name) for row in result.layers]
        curve(axes, layers, estimates, color=colour, label=label, marker="o", ms=2.2, lw=1.0)
    axes.axhline(result.seen, color=common.GREY, ls=":", lw=0.9)
    axes.set_ylim(0, 1.08 * result.seen)


def _by_length(axes: Axes, result: EffectiveKeys, style: Style) -> None:
    seen = [row.seen for row in result.lengths]
    for colour, (name, label) in zip(style.palette, SERIES.items(), strict=False):
        estimates = [getattr(row, name) for row in result.lengths]
        curve(axes, seen, estimates, color=colour, label=label, marker="o", ms=2.2, lw=1.0)
    axes.plot(seen, seen, color=common.GREY, ls=":", lw=0.9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
        axis.set_minor_locator(NullLocator())


def cost(entry: Reading) -> Interval:
    """What reading a few keys costs: nats per token of a decoder, else 1 minus the cosine."""
    cosine = entry.cosine
    return entry.delta_nll or Interval(
        value=1 - cosine.value, low=1 - cosine.high, high=1 - cosine.low
    )


def costs(result: EffectiveKeys, choice: str) -> dict[int, Interval]:
    """What reading so many keys of a choice costs, by their number."""
    return {
        entry.keys: cost(entry)
        for entry in result.reading
        if entry.choice == choice and entry.keys is not None
    }


def _costs(axes: Axes, result: EffectiveKeys, style: Style) -> None:
    for colour, (choice, label) in zip(style.palette[2:], CHOICES.items(), strict=False):
        by_keys = costs(result, choice)
        keys, estimates = list(by_keys), list(by_keys.values())
        look = {"color": colour, "label": label, "marker": MARKERS[choice], "ms": 3, "lw": 1.0}
        curve(axes, keys, estimates, **look)
    axes.axhline(0, color="0.75", lw=0.5, zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(keys, [str(count) for count in keys])
    axes.xaxis.set_minor_locator(NullLocator())


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
