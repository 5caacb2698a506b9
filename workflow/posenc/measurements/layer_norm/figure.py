"""What normalisations do to position: scale, spectrum, what remains, gain, and what brought it."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.runs import Run, by_dataset, of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.evaluated import curve
from posenc.drawing.section import Figure, Style
from posenc.measurements.layer_norm.result import Path


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw scale, spectrum and share of position, its gain and its sources; two rows per data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of layer_norm.

    Returns
    -------
    Colours are models. Above, left, S of each normalisation, median with the bands of 25 to 75 and
    5 to 95 % of tokens; middle, the amplitude spectrum of S P L of the first, and of P L at the
    mean S; right, the share of the variance that lies between positions along the residual stream,
    with that of shuffled positions. Below, what each normalisation does to position's mean part:
    left, its gain over that of content; middle and right, which share of the output's part has come
    from P itself, and from attention and MLPs. What lies beyond an axis is not shown.
    """
    runs = of_kind(measurements, "layer_norm", Path)
    measured = common.measured(canvas, runs, "no layer normalisation was measured")
    if not measured:
        return
    models = common.unique(run.model for run in runs)
    colours = dict(zip(models, style.palette, strict=False))
    rows = by_dataset(measured)
    grid = []
    for row, (dataset, shown) in enumerate(rows.items()):
        panels = [canvas.add_subplot(2 * len(rows), 3, 6 * row + place + 1) for place in range(6)]
        for place, run in enumerate(shown):
            colour = colours[run.model]
            _scale(panels[0], run, colour, place - (len(shown) - 1) / 2)
            _spectrum(panels[1], run.result, colour)
            _share(panels[2], run.result, colour)
            for axes, kind, name, look in (
                (panels[3], "gain", "relative", "-"),
                (panels[4], "sources", "position", "-"),
                (panels[5], "sources", "attention", "-"),
                (panels[5], "sources", "mlp", "--"),
            ):
                _moved(axes, run.result, kind, name, colour, look)
        _finish(panels[:3], common.display(dataset), row)
        _finish_moved(panels[3:], is_last=row == len(rows) - 1)
        grid += panels
    grid[1].plot([], [], color=common.GREY, lw=1.1, label="amplitude: S P L")
    grid[1].plot([], [], color=common.GREY, ls="--", lw=0.9, label="amplitude: P L at the mean S")
    grid[2].plot([], [], color=common.GREY, ls=":", lw=0.9, label="shuffled positions")
    grid[5].plot([], [], color=common.GREY, lw=1.1, label="share of attention")
    grid[5].plot([], [], color=common.GREY, ls="--", lw=1.1, label="share of MLPs")
    common.legend_above(canvas, grid, columns=5)
    _say_not_run(canvas, runs)


def _scale(axes: Axes, run: Run[Path], colour: str, place: float) -> None:
    norms = run.result.norms
    xs = [number / 2 + 0.06 * place for number in range(len(norms))]
    quantiles = {
        level: [norm.scale.quantiles[level] for norm in norms] for level in norms[0].scale.quantiles
    }
    for low, high, width in (("0.05", "0.95", 0.8), ("0.25", "0.75", 2.0)):
        axes.vlines(xs, quantiles[low], quantiles[high], color=colour, lw=width, alpha=0.8)
    name = common.display(run.model)
    axes.plot(xs, quantiles["0.5"], color=colour, marker="o", ms=2, lw=0.8, label=name)


def _spectrum(axes: Axes, result: Path, colour: str) -> None:
    spectrum = result.norms[0].spectrum
    # Frequency 0 has no place on a logarithmic axis.
    frequency, scaled = spectrum.frequency[1:], spectrum.scaled[1:]
    curve(axes, frequency, scaled, color=colour, lw=1.1)
    axes.plot(frequency, spectrum.position[1:], color=colour, ls="--", lw=0.9)


def _share(axes: Axes, result: Path, colour: str) -> None:
    """Of the residual stream after each addition, and of the last states."""
    *inner, last = [norm.between for norm in result.norms]
    end = "output" if result.placement == "after" else "input"
    shares = [*(getattr(between, end) for between in inner), last.output]
    xs = [number / 2 for number in range(len(shares))]
    curve(axes, xs, shares, color=colour, marker="o", ms=2, lw=1.1)
    shuffled = {
        x: between.shuffled.value
        for x, between in zip(xs, (*inner, last), strict=True)
        if between.shuffled is not None
    }
    axes.plot(list(shuffled), list(shuffled.values()), color=colour, ls=":", lw=0.9)


def _moved(axes: Axes, result: Path, kind: str, name: str, colour: str, look: str) -> None:
    """Where the data show position."""
    parts = [getattr(getattr(norm, kind), name) for norm in result.norms]
    estimates = {number / 2: part for number, part in enumerate(parts) if part is not None}
    curve(
        axes,
        list(estimates),
        list(estimates.values()),
        color=colour,
        marker="o",
        ms=2,
        lw=1.1,
        ls=look,
    )


def _finish(panels: list[Axes], dataset: str, row: int) -> None:
    """Scales, ticks and labels of a row."""
    scale, spectrum, share = panels
    scale.set_title(dataset, loc="left", fontweight="bold")
    for axes, label in zip(panels, ("scale S", "amplitude", "share of variance"), strict=True):
        axes.set_ylabel(label)
    for axes in (scale, spectrum):
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        ticks = common.logarithmic_ticks(low, high, 4)
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
    spectrum.set_xlabel("frequency (cycles per token)")


def _finish_moved(panels: list[Axes], is_last: bool) -> None:
    """Limits and labels of a lower row: intervals are wide where hardly any position is left."""
    labels = ("gain over content", "share of table P", "share of blocks")
    limits = ((0.5, 2.0), (-0.25, 1.25), (-0.5, 1.25))
    for axes, label, (low, high) in zip(panels, labels, limits, strict=True):
        axes.set_ylabel(label)
        axes.set_ylim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.axhline(1 if axes is panels[0] else 0, color=common.LIGHT, lw=0.6, zorder=0)
        if is_last:
            axes.set_xlabel("blocks passed")


def _inverse(values):
    """Period of a frequency and back; where matplotlib tries 0, any finite number does."""
    return 1 / values.clip(1e-9)


def _say_not_run(canvas: Canvas, runs: list[Run[Path]]) -> None:
    """Say below which runs were not measured."""
    reasons: dict[str, list[str]] = {}
    for run in runs:
        if run.measured is None:
            reasons.setdefault(run.reason, []).append(common.display(run.model))
    if not reasons:
        return
    said = "; ".join(
        f"{', '.join(common.unique(models))}: {reason}" for reason, models in reasons.items()
    )
    size = common.SMALLEST_POINTS
    characters = int(canvas.get_figwidth() * 72 / (0.55 * size))
    canvas.supxlabel(textwrap.fill(f"Not run: {said}.", characters), fontsize=size)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
