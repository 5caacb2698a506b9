"""What masks recover of what a rotation is worth: the ladder, and its placebos."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from posenc.artifacts.results import Spec
from posenc.artifacts.runs import Run, by_dataset
from posenc.conditions.positions import ROTATION
from posenc.drawing import common, evaluated
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.figures import conditions
from posenc.measurements.conditions.result import EvaluatedConditions, Mask

LOWEST, HIGHEST = -0.42, 1.12
HEADINGS = {
    "rotation": "other rotations",
    "fixed": "fixed masks",
    "slope": "one slope, chosen",
    "closed_form": "closed form, no fit",
    "placebo": "placebos of it",
    "means": "rotation to first order",
    "some layers": "first order, some layers",
    "means placebo": "placebos of first order",
    "distilled": "distilled",
    "fitted": "fitted",
}
"""By what is done, in order of presentation."""


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw the recovered share by mask for the first rotary decoder, a panel for each data set.

    Parameters
    ----------
    measurements : list of dict
        Measurements of evaluated conditions; those of models with a table are left out.

    Returns
    -------
    A point with its interval for each condition, and the loss in nats beside it; an arrow where
    the share lies beyond the axis.
    """
    measured, reasons = conditions.decoders(measurements, ROTATION)
    if not measured:
        common.not_run(canvas.add_subplot(), reasons or ["no rotary decoder in this study"], 60)
        return
    draw_runs(canvas, measured, style)


def draw_runs(canvas: Canvas, measured: list[Run[EvaluatedConditions]], style: Style) -> None:
    """Draw measured conditions of rotary decoders, or what a record has of them."""
    panels = {name: runs[0] for name, runs in by_dataset(measured).items()}
    names = _rows(list(panels.values()))
    first = None
    for place, run in enumerate(panels.values()):
        axes = canvas.add_subplot(1, len(panels), place + 1, sharey=first)
        axes.set_title(evaluated.panel_title(run))
        _draw_panel(axes, run, names, style)
        first = evaluated.share_rows(axes, names, first)
        axes.spines["left"].set_visible(False)
    label = "share of the lost log-perplexity recovered (0: no rotation, 1: intact)"
    canvas.supxlabel(label, fontsize=style.font_size)
    common.legend_above(canvas, [], columns=1, more=evaluated.arrows(canvas))


def _way(mask: Mask) -> str:
    """How a mask was learned, or that it is a placebo."""
    said = mask.as_json()
    return "placebo" if said["placebo"] else said["method"]


def _heading(spec: Spec, ways: dict[str, str]) -> str | None:
    """The heading of a condition; None for the two that all others are compared with."""
    mask, position = spec.get("mask"), spec.get("position", common.INTACT)
    if isinstance(position, dict) and position["kind"] == "first_order":
        if ways[position["mask"]] == "placebo" or position.get("hashed") is not None:
            return HEADINGS["means placebo"]
        return HEADINGS["some layers" if position.get("layers") else "means"]
    if mask is None:
        return None if position in (common.INTACT, "zero") else HEADINGS["rotation"]
    name = mask["profile"].get("mask")
    return HEADINGS["fixed" if name is None else ways[name]]


def _rows(runs: list[Run[EvaluatedConditions]]) -> list[tuple[str, bool]]:
    """Headings and conditions, and whether a row is a heading."""
    by_heading: dict[str, list[str]] = {heading: [] for heading in HEADINGS.values()}
    for run in runs:
        ways = {mask.mask: _way(mask) for mask in run.result.masks}
        for entry in run.result.conditions:
            heading, name = _heading(entry.spec, ways), entry.condition
            if heading is not None and name not in by_heading[heading]:
                by_heading[heading].append(name)
    row_names = []
    for heading, names in by_heading.items():
        row_names += [(heading, True), *((name, False) for name in names)] if names else []
    return row_names


def _draw_panel(
    axes: Axes, run: Run[EvaluatedConditions], names: list[tuple[str, bool]], style: Style
) -> None:
    for level in (0.0, 1.0):
        axes.axvline(level, color=common.GREY, lw=0.7)
    entries, heading = conditions.entries(run), ""
    if not conditions.has_shares(run):
        evaluated.nothing_is_lost(axes)
    colours = {
        name: style.palette[place % len(style.palette)]
        for place, name in enumerate(HEADINGS.values())
    } | dict.fromkeys((HEADINGS["placebo"], HEADINGS["means placebo"]), common.GREY)
    for row, (name, is_heading) in enumerate(names):
        if is_heading:
            heading = name
            continue
        entry = entries.get(name)
        if entry and entry.recovered and entry.nll_per_token:
            evaluated.share(axes, entry.recovered, row, (LOWEST, HIGHEST), colours[heading])
            loss = f"{entry.nll_per_token.value:.2f}"
            axes.text(
                1.02, row, loss, transform=axes.get_yaxis_transform(), va="center",
                fontsize=common.SMALLEST_POINTS,
            )  # fmt: skip
    axes.text(
        1.02, -0.6, "loss\n(nats)", transform=axes.get_yaxis_transform(), va="center",
        fontsize=common.SMALLEST_POINTS,
    )  # fmt: skip
    axes.set_xlim(LOWEST, HIGHEST)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"])


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
