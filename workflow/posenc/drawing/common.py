"""What all figures share: style, layout of panels, the reading of inputs, deterministic files."""

from __future__ import annotations

import contextlib
import functools
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure as Canvas
from matplotlib.figure import SubFigure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import MaxNLocator

from posenc.artifacts.files import (
    atomic_file,
)
from posenc.artifacts.runs import R, Run
from posenc.config.labels import display, labelled
from posenc.drawing import svg, values
from posenc.drawing.section import Figure, Style

INTACT = "intact"
SMALLEST_POINTS = values.SMALLEST_POINTS
"""No text of a figure is smaller than this at print size."""
SLIDE_POINTS = 10.0
"""Size of text on slides; that of ticks is a point smaller."""
GREY = "0.35"
LIGHT = "0.82"
MARKERS = "osD^vP*X"
DOTS_PER_INCH = 200
NONE: Mapping[str, Artist] = MappingProxyType({})


@contextlib.contextmanager
def styled(style: Style) -> Iterator[None]:
    """Apply the shared style, whatever the user's own matplotlib settings are, and its labels."""
    small = max(SMALLEST_POINTS, style.font_size - 1)
    with matplotlib.rc_context(), labelled(style.labels):
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.family": "DejaVu Sans",
                "font.size": style.font_size,
                "axes.titlesize": style.font_size,
                "axes.labelsize": style.font_size,
                "xtick.labelsize": small,
                "ytick.labelsize": small,
                "legend.fontsize": small,
                "legend.frameon": False,
                "legend.handlelength": 1.8,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.linewidth": 0.6,
                "xtick.major.width": 0.6,
                "ytick.major.width": 0.6,
                "lines.linewidth": 1.2,
                "figure.constrained_layout.use": True,
                # Embedded TrueType fonts, text that can be searched, and the same bytes each time.
                "pdf.fonttype": 42,
                "svg.hashsalt": "posenc",
            }
        )
        yield


def drawing(
    draw: Callable[[Canvas, Any, Any, Style], None],
) -> Callable[[Any, Any, Style], Canvas]:
    """Pass a drawing function a canvas of the size in params.yaml, in the shared style.

    Nothing is shown; the result goes to :func:`save`.
    """

    @functools.wraps(draw)
    def drawn(measurements: Any, figure: Figure, style: Style) -> Canvas:
        with styled(style):
            canvas = Canvas(figsize=(figure.width, figure.height))
            FigureCanvasAgg(canvas)
            draw(canvas, measurements, figure, style)
        return canvas

    return drawn


def slide(
    width: float, height: float
) -> Callable[[Callable[[Canvas, Any, Style], None]], Callable[[Any, Style], Canvas]]:
    """Pass a drawing function for slides a canvas of a size in inches, its place on the slide.

    Slides have a language and figures have none: a drawing has digits but no words, which the
    slide sets itself, in its own fonts.
    """

    def decorated(draw: Callable[[Canvas, Any, Style], None]) -> Callable[[Any, Style], Canvas]:
        @functools.wraps(draw)
        def drawn(measurements: Any, style: Style) -> Canvas:
            larger = style.model_copy(update={"font_size": SLIDE_POINTS})
            with styled(larger):
                canvas = Canvas(figsize=(width, height))
                FigureCanvasAgg(canvas)
                draw(canvas, measurements, larger)
            return canvas

        return drawn

    return decorated


def save(
    figure: Canvas, outputs: Iterable[Path], style: Style, for_slides: Canvas | None = None
) -> None:
    """Write a figure to each output atomically; the format is that of the suffix.

    The bytes depend on the figure alone: no date or version is recorded. The drawing for slides is
    the second page of a PDF.
    """
    with styled(style):
        for output in outputs:
            kind = Path(output).suffix.removeprefix(".")
            # A None removes the entry that matplotlib would write by itself.
            metadata = {"CreationDate": None} if kind == "pdf" else None
            with atomic_file(output) as temporary:
                if kind == "pdf" and for_slides:
                    with PdfPages(temporary, metadata=metadata) as pages:
                        for page in (figure, for_slides):
                            pages.savefig(page)
                elif kind == "svg":
                    text = svg.written(figure, DOTS_PER_INCH)
                    temporary.write_text(text, encoding="utf-8")
                else:
                    figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)


def unique(values: Iterable[Any]) -> list[Any]:
    """The different values in order of appearance, which is the order of the study."""
    return list(dict.fromkeys(values))


def condition_colours(runs: Iterable[Run], style: Style) -> dict[str, str]:
    """A colour for each condition, the same in all figures; the intact model is dark grey."""
    names = unique(run.condition for run in runs)
    others = [name for name in names if name != INTACT]
    colours = {name: style.palette[index % len(style.palette)] for index, name in enumerate(others)}
    return {INTACT: GREY, **colours}


def grid(figure: Canvas, panels: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Axes]:
    """Make the axes of small multiples: one row of up to four, else a column for each model.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        What to make them on.
    panels : sequence of (model, dataset)
        In order of presentation.

    Returns
    -------
    dict
        The titled axes by panel.
    """
    models = unique(model for model, _ in panels)
    datasets = unique(dataset for _, dataset in panels)
    if len(panels) <= 4:
        rows, columns, joint = 1, max(1, len(panels)), "\n"
        places = dict(zip(panels, range(len(panels)), strict=True))
    else:
        rows, columns = len(datasets), len(models)
        # Rows are low: titles of one line, where they fit.
        joint = ", " if columns <= 3 else "\n"
        places = {(m, d): datasets.index(d) * columns + models.index(m) for m, d in panels}
    axes = {}
    for panel, place in places.items():
        axes[panel] = figure.add_subplot(rows, columns, place + 1)
        axes[panel].set_title(joint.join(title(figure, name, columns) for name in panel))
    return axes


def layer_ticks(axes: Axes, columns: int) -> None:
    """Put whole numbers on the horizontal axis of a panel, in a row of ``columns`` panels."""
    axes.xaxis.set_major_locator(MaxNLocator(max(2, 12 // columns), integer=True))


def title(figure: Canvas, name: str, columns: int) -> str:
    """A name as the title of a panel, in lines that fit in a row of ``columns`` panels."""
    room = figure.get_figwidth() * 72 / columns / matplotlib.rcParams["axes.titlesize"]  # in ems
    return textwrap.fill(display(name), int(room / 0.65))


def small_multiples(figure: Canvas, runs: Sequence[Run[R]]) -> Iterator[tuple[Axes, list[Run[R]]]]:
    """Make axes by model and data set for the runs that are not of the intact model.

    Yields
    ------
    The axes and their measured runs. Axes without any say why, and are left out; a figure without
    panels says why, too.
    """
    panels: dict[tuple[str, str], list[Run[R]]] = {}
    for run in runs:
        if run.condition != INTACT:
            panels.setdefault((run.model, run.dataset), []).append(run)
    if not panels:
        not_run(figure.add_subplot(), ["the study has no condition but intact"], 60)
    for panel, axes in grid(figure, list(panels)).items():
        shown = [run for run in panels[panel] if run.measured is not None]
        if shown:
            yield axes, shown
        else:
            not_run(axes, [run.reason for run in panels[panel]], 22)


def is_left(axes: Axes) -> bool:
    """Whether axes of a grid stand at its left edge."""
    return axes.get_subplotspec().is_first_col()


def legend_above(
    figure: Canvas | SubFigure,
    axes: Iterable[Axes],
    columns: int,
    more: Mapping[str, Artist] = NONE,
) -> None:
    """Put one legend for all panels over them, where it covers no data; ``more`` are its last."""
    entries: dict[str, Artist] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    entries |= more
    if entries:
        figure.legend(
            entries.values(), entries.keys(), loc="outside upper center",
            ncols=columns_that_fit(figure, [*entries], columns),
            borderaxespad=0.2, columnspacing=1.2,
        )  # fmt: skip


def columns_that_fit(figure: Canvas | SubFigure, labels: Sequence[str], most: int) -> int:
    """How many columns of a legend fit the width of the figure, at most ``most``."""
    size = matplotlib.rcParams["legend.fontsize"]
    room = (
        figure.bbox.width / figure.dpi * 72 / FontProperties(size=size).get_size_in_points()
    )  # in ems

    def width(columns: int) -> float:
        rows = -(-len(labels) // columns)
        longest = (max(map(len, labels[at : at + rows])) for at in range(0, len(labels), rows))
        # A line, the space beside it, and letters a bit wider than half an em.
        return sum(4 + 0.55 * length for length in longest)

    return next((n for n in range(most, 1, -1) if width(n) <= room), 1)


def not_run(axes: Axes, reasons: Iterable[str], characters: int) -> None:
    """Say in empty axes why there are no data, in lines of so many characters."""
    text = "not run: " + "; ".join(unique(reasons))
    axes.set_axis_off()
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(
        0.5, 0.5, textwrap.fill(text, characters), ha="center", va="center",
        transform=axes.transAxes,
    )  # fmt: skip


def note_not_run(figure: Canvas, runs: Mapping[str, str]) -> None:
    """Say below the panels what was not run, and why, so that it takes no panel of its own.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        It has no common label of its x axes.
    runs : mapping
        The reason by what was not run.
    """
    if runs:
        said = "; ".join(f"{display(name)} ({reason})" for name, reason in runs.items())
        # In lines that also fit where a note in the size of the text follows.
        room = int(figure.get_figwidth() * 72 / (0.55 * matplotlib.rcParams["font.size"]))
        figure.supxlabel(textwrap.fill(f"not run: {said}", room), fontsize=SMALLEST_POINTS)


def measured(
    figure: Canvas, runs: Sequence[Run[R]], otherwise: str, characters: int = 60
) -> list[Run[R]]:
    """Those that were measured. Without any, the whole figure says why.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The whole figure.
    runs : sequence of Run
        Measured or not.
    otherwise : str
        What it says where there are none.
    characters : int
        Of a line.
    """
    shown = [run for run in runs if run.measured is not None]
    if not shown:
        reasons = [run.reason for run in runs]
        not_run(figure.add_subplot(), reasons or [otherwise], characters)
    return shown


def logarithmic_ticks(low: float, high: float, most: int) -> list[float]:
    """The finest round ticks between two values on a logarithmic axis, at most so many."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    sets = ((1, 2, 3, 4, 5, 7), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,))
    candidates = [[m * 10.0**e for e in exponents for m in mantissas] for mantissas in sets]
    candidates += [[10.0**e for e in exponents if e % step == 0] for step in range(2, 20)]
    for candidate in candidates:
        inside = [tick for tick in candidate if low <= tick <= high]
        if len(inside) <= most:
            return inside
    return []


def plain_number(value: float) -> str:
    """A number without exponents, whose raised digits would be too small to read."""
    return f"{value:,.0f}".replace(",", "\u2009") if value >= 1 else f"{value:g}"


def label_layers(axes: Axes, n_layers: int, n_heads: int, colour: str = "white") -> None:
    """Name layers, 0-based, at the middle of their heads, with a line between two layers."""
    step = max(1, n_layers // 6)
    shown = range(0, n_layers, step)
    axes.set_yticks([(layer + 0.5) * n_heads - 0.5 for layer in shown], list(map(str, shown)))
    axes.tick_params(axis="y", length=0)
    for layer in range(1, n_layers):
        axes.axhline(layer * n_heads - 0.5, color=colour, lw=0.6)
    axes.spines[:].set_visible(False)


def label_offsets(axes: Axes, offsets: list[int], causal: bool) -> None:
    """Ticks at 0 and half-way to the ends; a decoder has no keys after the query."""
    half = max(1, offsets[-1] // 2)
    ticks = [-offsets[-1], -half, 0] if causal else [-half, 0, half]
    axes.set_xticks(ticks, [f"{tick:+d}".replace("-", "\u2212") if tick else "0" for tick in ticks])
    axes.set_xlim(offsets[0] - 0.5, 0.5 if causal else offsets[-1] + 0.5)
