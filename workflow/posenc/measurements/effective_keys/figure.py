"""How many keys attention reads, by layer and length, and what reading only a few costs."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator, StrMethodFormatter

from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import by_dataset, curve, of_kind
from posenc.drawing.section import Figure, Style

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
    rows = by_dataset(of_kind(measurements, "effective_keys"))
    if not rows:
        common.not_run(canvas.add_subplot(), ["no attention was measured"], 60)
        return
    dataset, shown = next(iter(rows.items()))
    panels = canvas.subplots(3, len(shown), squeeze=False)
    for place, measurement in enumerate(shown):
        _by_layer(panels[0, place], measurement, style)
        panels[0, place].set_title(common.title(canvas, measurement["run"]["model"], len(shown)))
        common.layer_ticks(panels[0, place], len(shown))
        _by_length(panels[1, place], measurement, style)
        _costs(panels[2, place], measurement, style)
    for row, label in zip(panels, ("layer", "keys seen", "keys read"), strict=True):
        for axes in row:
            axes.set_xlabel(label)
    for axes in panels[:2, 0]:
        axes.set_ylabel("effective keys")
    first: dict[bool, Axes] = {}
    for axes, measurement in zip(panels[2], shown, strict=True):
        if first.setdefault(measurement["is_causal"], axes) is axes:
            axes.set_ylabel(
                "lost nats per token" if measurement["is_causal"] else "1 − cosine with intact"
            )
    common.legend_above(canvas, panels[:, 0], columns=len(SERIES) + len(CHOICES))
    canvas.supxlabel(f"({common.display(dataset)})", fontsize=style.font_size)


def _by_layer(axes: Axes, measurement: dict, style: Style) -> None:
    layers = [row["layer"] for row in measurement["layers"]]
    for colour, (name, label) in zip(style.palette, SERIES.items(), strict=False):
        estimates = [row[name] for row in measurement["layers"]]
        curve(axes, layers, estimates, color=colour, label=label, marker="o", ms=2.2, lw=1.0)
    axes.axhline(measurement["seen"], color=common.GREY, ls=":", lw=0.9)
    axes.set_ylim(0, 1.08 * measurement["seen"])


def _by_length(axes: Axes, measurement: dict, style: Style) -> None:
    seen = [row["seen"] for row in measurement["lengths"]]
    for colour, (name, label) in zip(style.palette, SERIES.items(), strict=False):
        estimates = [row[name] for row in measurement["lengths"]]
        curve(axes, seen, estimates, color=colour, label=label, marker="o", ms=2.2, lw=1.0)
    axes.plot(seen, seen, color=common.GREY, ls=":", lw=0.9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
        axis.set_minor_locator(NullLocator())


def costs(measurement: dict, choice: str) -> tuple[list[int], list[dict[str, float]]]:
    """Numbers of keys, and what reading so many costs: nats per token, or 1 minus the cosine."""
    entries = [entry for entry in measurement["reading"] if entry["choice"] == choice]
    if measurement["is_causal"]:
        return [entry["keys"] for entry in entries], [entry["delta_nll"] for entry in entries]
    ends = {"value": "value", "low": "high", "high": "low"}
    return [entry["keys"] for entry in entries], [
        {name: 1 - entry["cosine"][other] for name, other in ends.items()} for entry in entries
    ]


def _costs(axes: Axes, measurement: dict, style: Style) -> None:
    for colour, (choice, label) in zip(style.palette[2:], CHOICES.items(), strict=False):
        keys, estimates = costs(measurement, choice)
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
