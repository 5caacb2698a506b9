"""Offsets that weights alone predict against offsets where the attention is."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.lags.result import Comparison, Correlation, Lags

SHOWN = {"peak": "peak offset", "profile_mean": "mean offset"}
"""Comparisons of the rows, and what their axes are of."""
ABREAST = 4
"""Up to so many panels, all data sets are shown."""
LARGEST_POINT = 90.0
"""Area of the most frequent pair of offsets, square points."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw predicted against found offsets of all heads: a row per comparison.

    Parameters
    ----------
    measurements : list of dict
        The measurement of lags.

    Returns
    -------
    Peaks are whole offsets: the area of a circle is the number of heads. Titles hold the rank
    correlation with its interval, and the share of equal offsets with that by chance.
    """
    measured = common.measured(canvas, of_kind(measurements, "lags", Lags), "no lags were measured")
    if not measured:
        return
    columns = panels([run.result for run in measured])
    for row, (name, label) in enumerate(SHOWN.items()):
        for place, comparison in enumerate(columns):
            axes = canvas.add_subplot(len(SHOWN), len(columns), row * len(columns) + place + 1)
            _points(axes, comparison, name, style)
            title = summary(comparison.results[name])
            if row == 0:
                of = comparison.run
                names = (common.display(of.models[0]), common.display(of.dataset))
                title = "\n".join((*names, title))
            axes.set_title(title, fontsize=max(common.SMALLEST_POINTS, style.font_size - 1))
            axes.set_xlabel(f"predicted {label}", labelpad=1)
            if place == 0:
                axes.set_ylabel(f"{label} found")
    canvas.legend(
        handles=[
            Line2D([], [], marker="o", ms=4, ls="none", color=colour, alpha=0.6, label=label)
            for label, colour in groups(style).values()
        ],
        loc="outside upper center",
        ncols=2,
        borderaxespad=0.2,
    )


def panels(results: list[Lags]) -> list[Comparison]:
    """The comparisons of single models; of each the first data set alone if there are many."""
    single = [
        comparison
        for result in results
        for comparison in result.comparisons
        if len(comparison.run.models) == 1
    ]
    if len(single) <= ABREAST:
        return single
    first: dict[str, Comparison] = {}
    for comparison in single:
        first.setdefault(comparison.run.models[0], comparison)
    return list(first.values())


def groups(style: Style) -> dict[bool, tuple[str, str]]:
    """Name and colour of the heads of layer 0 (True), whose input is known, and of the others."""
    return {
        False: ("heads of later layers", style.palette[0]),
        True: ("heads of layer 0", style.palette[1]),
    }


def summary(result: Correlation) -> str:
    """Rank correlation with its interval over layers, and the share of equal offsets."""
    value = result.over_layers.spearman
    if value is None:
        text = "ρ not defined"
    else:
        numbers = [f"{number:.2f}" for number in value.numbers]
        text = "ρ = {} [{}, {}]".format(*numbers).replace("-", "\u2212")
    if result.agreement is not None:
        share, chance = 100 * result.agreement.share.value, 100 * result.agreement.chance.value
        text += f"\nequal {share:.0f} %, chance {chance:.0f} %"
    return text


def _points(axes: Axes, comparison: Comparison, name: str, style: Style) -> None:
    result = comparison.results[name]
    pairs = [
        (point.layer == 0, getattr(point, result.predicted), getattr(point, result.found))
        for point in comparison.points
    ]
    counts = Counter(pair for pair in pairs if None not in pair)
    is_whole = name == "peak"
    largest = max(counts.values())
    for is_first, (_, colour) in groups(style).items():
        chosen = {key[1:]: count for key, count in counts.items() if key[0] == is_first}
        axes.scatter(
            [x for x, _ in chosen], [y for _, y in chosen],
            s=[LARGEST_POINT * n / largest if is_whole else 9 for n in chosen.values()],
            color=colour, alpha=0.55, lw=0,
        )  # fmt: skip
    values = [value for key in counts for value in key[1:]]
    limit = 1.12 * max(map(abs, values)) or 1.0
    # A decoder has no offsets above 0.
    highest = limit if max(values) > 0 else limit / 10
    axes.plot([-limit, highest], [-limit, highest], color=common.LIGHT, lw=0.8, zorder=0)
    axes.set_aspect("equal")
    axes.set_xlim(-limit, highest)
    axes.set_ylim(-limit, highest)
    ticks = [-10, -5, 0, 5, 10] if limit > 5 else [-4, -2, 0, 2, 4]
    inside = [tick for tick in ticks if -limit <= tick <= highest]
    labels = [str(tick).replace("-", "\u2212") for tick in inside]
    axes.set_xticks(inside, labels)
    axes.set_yticks(inside, labels)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
