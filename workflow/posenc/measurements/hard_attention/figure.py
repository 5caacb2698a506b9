"""How noisy the gradient of hard attention is, by number of samples and by baseline."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from posenc.artifacts.runs import Run, of_kind
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.measurements.hard_attention.result import Attention

LABELS = {"none": "b = 0", "mean": "b = E[f]", "optimal": "b = b*"}
MARKERS = {"none": "o", "mean": "s", "optimal": "^"}
LEVELS = {"--": "gradient", ":": "soft"}
ZERO = "zero"
SHOWN = (common.INTACT, ZERO)


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw variance against samples for each baseline, and its ratio to that without a baseline.

    Parameters
    ----------
    measurements : list of dict
        Measurements of hard attention.

    Returns
    -------
    A panel per model, of the intact run of its first data set: lines are exact, with the
    interval over documents as a band, points are simulated. Dashed is the squared gradient,
    which noise is to stay below, dotted the squared difference of the soft read-out's gradient
    from it. A last panel with the ratios of all intact runs (filled) and of those without
    positions (hollow), with intervals.
    """
    runs = [
        run for run in of_kind(measurements, "hard_attention", Attention) if run.condition in SHOWN
    ]
    if not any(run.measured is not None for run in runs):
        reasons = [run.reason for run in runs]
        common.not_run(canvas.add_subplot(), reasons or ["no hard attention"], 60)
        return
    first = panels(runs)
    colours = dict(zip(LABELS, style.palette, strict=False))
    widths = [*(1.0 for _ in first), 1.3]
    grid = canvas.add_gridspec(1, len(first) + 1, width_ratios=widths)
    left = None
    for place, (model, run) in enumerate(first.items()):
        axes = canvas.add_subplot(grid[0, place], sharey=left)
        names = (model, run.dataset)
        axes.set_title("\n".join(common.title(canvas, name, len(first) + 3) for name in names))
        if run.measured is None:
            common.not_run(axes, [run.reason], 14)
            continue
        _variances(axes, run.result, colours)
        axes.tick_params(labelleft=left is None)
        left = left or axes
    if left is not None:
        _level(left)
        left.set_ylabel("total variance of the gradient")
    _ratios(canvas.add_subplot(grid[0, len(first)]), runs, colours)
    _legend(canvas, colours)


def panels(runs: list[Run[Attention]]) -> dict[str, Run[Attention]]:
    """The intact run of each model's first data set."""
    first: dict[str, Run[Attention]] = {}
    for run in runs:
        if run.condition == common.INTACT:
            first.setdefault(run.model, run)
    return first


def _variances(axes: Axes, result: Attention, colours: dict[str, str]) -> None:
    for entry in result.baselines:
        name, samples = entry.name, [each.samples for each in entry.samples]
        exact = [each.variance for each in entry.samples]
        evaluated.curve(axes, samples, exact, color=colours[name], lw=1.0)
        simulated = [each.simulated.value for each in entry.samples]
        axes.plot(samples, simulated, color=colours[name], marker=MARKERS[name], ms=3.2, ls="none")
    for look, level in LEVELS.items():
        estimate = result.signal if level == "gradient" else result.soft_gradient.square
        axes.axhspan(estimate.low, estimate.high, color=common.GREY, alpha=0.13, lw=0)
        axes.axhline(estimate.value, color=common.GREY, ls=look, lw=0.9)
    axes.set_xscale("log", base=2)
    axes.set_xticks(samples, [str(count) for count in samples])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("samples T")


def _level(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = common.logarithmic_ticks(low, high, 5)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _ratios(axes: Axes, runs: list[Run[Attention]], colours: dict[str, str]) -> None:
    """Ratios with intervals, a row per data set, under the name of its model."""
    rows: list[tuple[str, str | None]] = []
    for model in common.unique(run.model for run in runs):
        of_model = [run.dataset for run in runs if run.model == model]
        rows += [(model, None), *((model, dataset) for dataset in common.unique(of_model))]
    # Four marks share the height of a row.
    size = min(3.6, 27 / len(rows))
    for run in runs:
        if run.measured is None:
            continue
        row = rows.index((run.model, run.dataset))
        hollow = run.condition == ZERO
        for place, entry in enumerate(run.measured.baselines[1:]):
            if entry.ratio is None:
                continue
            at = row + (0.1 if hollow else -0.32) + 0.21 * place
            colour, ratio = colours[entry.name], entry.ratio
            axes.plot([ratio.low, ratio.high], [at, at], color=colour, lw=1.0)
            axes.plot(
                ratio.value, at, color=colour, marker=MARKERS[entry.name], ms=size, ls="none",
                mfc="white" if hollow else colour, mew=0.8,
            )  # fmt: skip
    axes.axvline(1, color=common.GREY, ls=":", lw=0.9)
    evaluated.label_rows(axes, [(dataset or model, dataset is None) for model, dataset in rows])
    axes.set_xscale("log")
    axes.set_xlim(right=1.3)
    low, high = axes.get_xlim()
    ticks = common.logarithmic_ticks(low, high, 4)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title("variance with\na baseline")
    axes.set_xlabel("share of that\nwith b = 0")


def _legend(figure: Canvas, colours: dict[str, str]) -> None:
    entries = [
        Line2D([], [], color=colours[name], marker=MARKERS[name], ms=3.6, lw=1.0, label=label)
        for name, label in LABELS.items()
    ]
    entries += [
        Line2D([], [], color=common.GREY, ls="--", lw=0.9, label="squared gradient"),
        Line2D([], [], color=common.GREY, ls=":", lw=0.9, label="soft attention's error²"),
        Line2D([], [], color=common.GREY, marker="o", ms=3.6, ls="none",
               label=common.display(common.INTACT)),
        Line2D([], [], color=common.GREY, marker="o", ms=3.6, ls="none", mfc="white",
               label=common.display(ZERO)),
    ]  # fmt: skip
    figure.legend(
        handles=entries, loc="outside upper center", ncols=7, borderaxespad=0.2, columnspacing=1.2
    )


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
