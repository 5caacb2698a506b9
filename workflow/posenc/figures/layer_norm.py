"""What layer normalisation does to position: its scale, the spectrum it leaves, what remains."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.figures import common
from posenc.figures.evaluated import by_dataset, curve
from posenc.figures.section import Figure, Style


@common.drawing
def draw(made: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the scale by layer, spectra of position, and its share of variance, a row per data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of layer_norm.

    Returns
    -------
    Colours are models. Left, S of the normalisation before each block, median with the bands
    of 25 to 75 and 5 to 95 % of tokens. Middle, the amplitude spectrum of S P L of the first
    normalisation, and of P L at the mean S. Right, the share of the variance of hidden states
    that lies between positions, with that of shuffled positions.
    """
    found = [one for one in measurements if one["measurement"] == "layer_norm"]
    measured = [one for one in found if one["status"] == "measured"]
    if not measured:
        common.not_run(made.add_subplot(), [one["reason"] for one in found], 60)
        return
    models = common.unique(one["run"]["model"] for one in found)
    colours = dict(zip(models, style.palette, strict=False))
    rows = by_dataset(measured)
    grid = []
    for row, (dataset, ones) in enumerate(rows.items()):
        panels = [made.add_subplot(len(rows), 3, 3 * row + place + 1) for place in range(3)]
        for one in ones:
            colour = colours[one["run"]["model"]]
            _scale(panels[0], one, colour, ones.index(one) - (len(ones) - 1) / 2)
            _spectrum(panels[1], one, colour)
            _share(panels[2], one, colour)
        _finish(panels, common.display(dataset), row, len(rows))
        grid += panels
    grid[1].plot([], [], color=common.GREY, lw=1.1, label="S P L")
    grid[1].plot([], [], color=common.GREY, ls="--", lw=0.9, label="P L at the mean S")
    grid[2].plot([], [], color=common.GREY, ls=":", lw=0.9, label="shuffled positions")
    common.legend_above(made, grid, columns=7 if len(models) < 4 else 4)
    _say_not_run(made, found)


def _scale(axes: Axes, one: dict, colour: str, place: float) -> None:
    norms = one["norms"]
    xs = [(norm["layer"] or 0) + 0.12 * place for norm in norms]
    quantiles = {
        level: [norm["scale"]["quantiles"][level] for norm in norms]
        for level in norms[0]["scale"]["quantiles"]
    }
    for low, high, width in (("0.05", "0.95", 0.8), ("0.25", "0.75", 2.6)):
        axes.vlines(xs, quantiles[low], quantiles[high], color=colour, lw=width, alpha=0.8)
    name = common.display(one["run"]["model"])
    axes.plot(xs, quantiles["0.5"], color=colour, marker="o", ms=3, lw=0.8, label=name)


def _spectrum(axes: Axes, one: dict, colour: str) -> None:
    spectrum = one["norms"][0]["spectrum"]
    # Frequency 0 has no place on a logarithmic axis.
    frequency, scaled = spectrum["frequency"][1:], spectrum["scaled"][1:]
    curve(axes, frequency, scaled, color=colour, lw=1.1)
    axes.plot(frequency, spectrum["position"][1:], color=colour, ls="--", lw=0.9)


def _share(axes: Axes, one: dict, colour: str) -> None:
    states = [state["state"] for state in one["states"]]
    curve(
        axes, states, [state["between_positions"] for state in one["states"]],
        color=colour, marker="o", ms=2.5, lw=1.1,
    )  # fmt: skip
    shuffled = [state["shuffled"]["value"] for state in one["states"]]
    axes.plot(states, shuffled, color=colour, ls=":", lw=0.9)


def _finish(panels: list[Axes], dataset: str, row: int, rows: int) -> None:
    """Scales, ticks and labels of a row."""
    scale, spectrum, share = panels
    scale.set_title(dataset, loc="left", fontweight="bold")
    for axes, label in zip(panels, ("scale S", "amplitude", "share of variance"), strict=True):
        axes.set_ylabel(label)
    for axes in (scale, spectrum):
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        ticks = common.logarithmic_ticks(low, high, 5 if rows < 3 else 3)
        if len(ticks) < 2:  # a span too short for round multiples of powers of ten
            ticks = [tick for tick in MaxNLocator(3).tick_values(low, high) if low <= tick <= high]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    spectrum.set_xscale("log")
    low, high = spectrum.get_xlim()
    ticks = common.logarithmic_ticks(low, high, 4)
    spectrum.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    spectrum.minorticks_off()
    for axes in (scale, share):
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.margins(x=0.08)
    left, right = scale.get_xlim()
    scale.set_xlim(min(left, -0.5), max(right, 0.5))
    scale.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    share.axhline(0, color=common.LIGHT, lw=0.6, zorder=0)
    period = spectrum.secondary_xaxis("top", functions=(_inverse, _inverse))
    inverse = common.logarithmic_ticks(1 / high, 1 / low, 4)
    period.set_xticks(inverse, [common.plain_number(tick) for tick in inverse])
    period.minorticks_off()
    if row == 0:
        period.set_xlabel("period (tokens)")
    if row == rows - 1:
        scale.set_xlabel("block (encoder: embedding)")
        spectrum.set_xlabel("frequency (cycles per token)")
        share.set_xlabel("layer (0: embedding)")


def _inverse(values):
    """Period of a frequency and back; where matplotlib tries 0, any finite number does."""
    return 1 / values.clip(1e-9)


def _say_not_run(made: Canvas, found: list[dict]) -> None:
    """Say below which normalisations, and which runs, were not measured."""
    reasons: dict[str, list[str]] = {}
    for one in found:
        reason = one["not_run"]["reason"] if one["status"] == "measured" else one["reason"]
        reasons.setdefault(reason, []).append(common.display(one["run"]["model"]))
    said = "; ".join(
        f"{', '.join(common.unique(models))}: {reason}" for reason, models in reasons.items()
    )
    size = common.SMALLEST_POINTS
    characters = int(made.get_figwidth() * 72 / (0.55 * size))
    made.supxlabel(textwrap.fill(f"Not run: {said}.", characters), fontsize=size)


main = common.command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
