"""What a drawn figure shows, read from its own artists: values with their names and intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import (
    FillBetweenPolyCollection,
    LineCollection,
    PathCollection,
    QuadMesh,
)
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch

SMALLEST_POINTS = 6.0
"""Text of this size below a figure is a note, not a label of its axes."""
MOST_OF_A_LINE = 60
"""Of a line with more points, such as a formula's, only every second, third, ... is a value."""
MOST_POINTS = 20_000
"""Lines with more points are dense: they are drawn as a bitmap, and have no values."""
MOST_CELLS = 4000
"""Cells of a figure's heat maps are values up to this number."""
CAPS = ("", "|", "_")
"""Marks of a line of two points that is an interval."""
BEYOND = ({"<": "<", ">": ">"}, {"v": "<", "^": ">"})
"""Marks at the ends of an axis for values beyond it, and how that is written, by axis."""


@dataclass(frozen=True)
class Interval:
    """An interval along an axis (0 or 1), at a place of the other one."""

    artist: Artist
    axis: int
    place: float
    low: float
    high: float

    def holds(self, point: np.ndarray) -> bool:
        """Whether a point lies on it; point: (axis,)."""
        near = 1e-9 * (abs(self.place) + abs(point[1 - self.axis]))
        room = 1e-9 * (abs(self.low) + abs(self.high))
        return (
            abs(point[1 - self.axis] - self.place) <= near
            and self.low - room <= point[self.axis] <= self.high + room
        )


@dataclass(frozen=True)
class Series:
    """Points of one look in one panel."""

    artist: Artist
    points: np.ndarray
    """In the units of the axes: (point, axis). NaN stands for no value of its own."""
    marker: str = ""
    heights: np.ndarray | None = None
    """Of the cells of a heat map: (point,)."""


class Values(TypedDict):
    """All values that a figure shows.

    Attributes
    ----------
    panels
        Of each the title, and the labels of its axes and of its colours.
    series
        Of each the number of its panel, its name, and its points. A point has both places on the
        picture, in tenths of a point (1/72 inch) from the top left corner, and both values in
        words. Where it has an interval, there follow the axis along which that is (0 or 1), low
        and high; of the cell of a heat map, 2 and its value.
    """

    panels: list[list[str]]
    series: list[tuple[int, str, list[list[int | str]]]]


def is_dense(figure: Canvas) -> bool:
    """Whether its lines have more points than a reader can tell apart, or a page should hold."""
    return sum(len(line.get_xdata()) for a in figure.axes for line in a.lines) > MOST_POINTS


def values(figure: Canvas) -> Values:
    """All values that a figure shows, as its SVG holds them.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Already drawn, so that its layout is final.
    """
    shown: Values = {"panels": [], "series": []}
    panels = [a for a in figure.axes if a.axison and not hasattr(a, "_colorbar")]
    has_cells = (
        sum(_array(heat_map).size for axes in panels for heat_map in _maps(axes)) <= MOST_CELLS
    )
    for number, axes in enumerate([] if is_dense(figure) else panels):
        labels = [_label(figure, panels, axes, name) for name in ("x", "y")]
        shown["panels"].append([_plain(axes.get_title()), *labels, _of_colours(axes)])
        names, intervals = _names(figure, axes), list(_intervals(axes))
        words = (_words(axes.xaxis), _words(axes.yaxis))
        seen: set[tuple] = set()
        for series in _series(axes, has_cells):
            name, colour = _name(series.artist, names), _colour(series.artist)
            if not (name or series.marker) and _is_neutral(colour):
                continue  # a rule of the drawing, not data
            around = _around(axes, series, intervals)
            points: list[list[int | str]] = []
            for index, place in enumerate(_places(axes, series.points)):
                # A line and its marks are often drawn one after the other.
                if place is None or (*place, colour) in seen:
                    continue
                seen.add((*place, colour))
                point = series.points[index]
                said: list[int | str] = [*place]
                said += [_said(axes, series, point, axis, words[axis]) for axis in (0, 1)]
                if series.heights is not None:
                    said += [2, number_in_words(series.heights[index])]
                elif interval := next(
                    (interval for interval in around if interval.holds(point)), None
                ):
                    said += [interval.axis, *_ends(axes, interval, words[interval.axis])]
                points.append(said)
            if points:
                shown["series"].append((number, name, points))
    return shown


def _series(axes: Axes, has_cells: bool) -> Iterator[Series]:
    """Lines, points, bars, steps and heat maps, in the order of drawing of each kind."""
    for line in axes.lines:
        marker = _marker(line)
        in_units = line.get_transform().contains_branch_seperately(axes.transData)
        data = line.get_xydata().astype(float)  # (point, axis)
        if in_units != (True, True):
            # A line at one height or at one place.
            data = np.where(in_units, data[:1], np.nan)
        elif len(data) == 2 and marker in CAPS and (data[0] == data[1]).any():
            continue  # an interval
        yield Series(line, data[:: len(data) // MOST_OF_A_LINE + 1], marker)
    for collection in axes.collections:
        if isinstance(collection, PathCollection):
            yield Series(collection, np.ma.filled(collection.get_offsets(), np.nan), "o")
    for heat_map in _maps(axes) if has_cells else ():
        array = _array(heat_map)  # (row, column)
        is_cell = np.isfinite(array)
        yield Series(heat_map, _centres(heat_map, array.shape)[is_cell], "cell", array[is_cell])
    for container in axes.containers:
        if isinstance(container, BarContainer):
            ends = [bar.get_bbox() for bar in container]
            if container.orientation == "vertical":
                points = [((box.x0 + box.x1) / 2, box.y1) for box in ends]
            else:
                points = [(box.x1, (box.y0 + box.y1) / 2) for box in ends]
            yield Series(container[0], np.array(points), "bar")
    for patch in axes.patches:
        if isinstance(patch, StepPatch):
            heights, edges, _ = patch.get_data()
            steps = np.column_stack([(edges[1:] + edges[:-1]) / 2, heights])  # (step, axis)
            yield Series(patch, steps[heights != 0])  # an empty bin would only be in the way


def _marker(line: Line2D) -> str:
    """Empty where there is none."""
    marker = str(line.get_marker())
    return "" if marker in ("None", "none", " ") else marker


def _maps(axes: Axes) -> list[Any]:
    """Heat maps."""
    meshes = [collection for collection in axes.collections if isinstance(collection, QuadMesh)]
    return [heat_map for heat_map in (*axes.images, *meshes) if _array(heat_map).ndim == 2]


def _array(heat_map: Any) -> np.ndarray:
    """Values of the cells: (row, column)."""
    return np.ma.filled(np.ma.asarray(heat_map.get_array(), dtype=float), np.nan)


def _centres(heat_map: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Of the cells: (row, column, axis)."""
    if isinstance(heat_map, QuadMesh):
        corners = heat_map.get_coordinates()  # (row + 1, column + 1, axis)
        return (corners[1:, 1:] + corners[:-1, :-1]) / 2
    left, right, bottom, top = heat_map.get_extent()
    if heat_map.origin == "upper":
        bottom, top = top, bottom
    xs = left + (right - left) * (np.arange(shape[1]) + 0.5) / shape[1]  # (column,)
    ys = bottom + (top - bottom) * (np.arange(shape[0]) + 0.5) / shape[0]  # (row,)
    return np.stack(np.meshgrid(xs, ys), axis=-1)


def _intervals(axes: Axes) -> Iterator[Interval]:
    """What lies along one axis: lines of two points, with caps or without, and bands."""
    pieces: list[tuple[Artist, Any]] = [
        (line, line.get_xydata()) for line in axes.lines if _marker(line) in CAPS
    ]
    for collection in axes.collections:
        if isinstance(collection, LineCollection):
            pieces += [(collection, segment) for segment in collection.get_segments()]
        elif isinstance(collection, FillBetweenPolyCollection):
            across = 0 if collection.t_direction == "x" else 1
            for path in collection.get_paths():
                at = path.vertices[:, across]
                for place in np.unique(at):
                    ends = path.vertices[at == place, 1 - across]
                    yield Interval(collection, 1 - across, place, ends.min(), ends.max())
    for artist, piece in pieces:
        for axis in (0, 1) if len(piece) == 2 else ():
            if piece[0][1 - axis] == piece[1][1 - axis]:
                low, high = sorted((piece[0][axis], piece[1][axis]))
                yield Interval(artist, axis, piece[0][1 - axis], low, high)


def _around(axes: Axes, series: Series, intervals: Iterable[Interval]) -> list[Interval]:
    """Intervals of the series' colour, with those first that are most likely its own.

    These hold most of its points, and were drawn next to it, rather before it than after.
    """
    colour, order = _colour(series.artist), axes.get_children()
    its = order.index(series.artist)
    alike = [
        interval
        for interval in intervals
        if interval.low < interval.high and _colour(interval.artist) == colour
    ]
    held = Counter(
        id(interval.artist) for interval in alike if any(map(interval.holds, series.points))
    )

    def likely(interval: Interval) -> tuple[int, int, bool]:
        apart = order.index(interval.artist) - its
        return -held[id(interval.artist)], abs(apart), apart > 0

    return sorted(alike, key=likely)


def _places(axes: Axes, points: np.ndarray) -> list[tuple[int, int] | None]:
    """Where points lie on the picture, in tenths of points; None outside of the panel.

    What has no value along an axis lies in the middle of it.
    """
    figure, box = axes.get_figure(root=True), axes.bbox.padded(1.5)
    scale, height = 72 / figure.dpi, 72 * figure.get_figheight()
    middle = axes.transData.inverted().transform(axes.transAxes.transform((0.5, 0.5)))  # (axis,)
    filled = np.where(np.isnan(points), middle, points) if len(points) else np.empty((0, 2))
    return [
        (round(10 * scale * x), round(10 * (height - scale * y)))
        if math.isfinite(x) and math.isfinite(y) and box.contains(x, y)
        else None
        for x, y in axes.transData.transform(filled)
    ]


def _said(
    axes: Axes, series: Series, point: np.ndarray, axis: int, words: Callable[[float], str]
) -> str:
    """A value in words."""
    if math.isnan(point[axis]):
        return ""
    is_end = point[axis] in (axes.get_xlim(), axes.get_ylim())[axis]
    beyond = BEYOND[axis].get(series.marker, "") if is_end else ""
    return f"{beyond} {words(point[axis])}".strip()


def _ends(axes: Axes, interval: Interval, words: Callable[[float], str]) -> list[str]:
    """Both ends in words; an end that the axis cuts off has no number."""
    low, high = sorted((axes.get_xlim(), axes.get_ylim())[interval.axis])
    return [words(end) if low < end < high else "…" for end in (interval.low, interval.high)]


def number_in_words(value: float) -> str:
    """A value in four digits, or in a few more where they save an exponent."""
    text = f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _words(axis: Axis) -> Callable[[float], str]:
    """How to say a value of an axis: by the word of its tick where ticks are words."""
    places = axis.get_majorticklocs()
    said = axis.get_major_formatter().format_ticks(places)
    ticks = [(place, text) for place, text in zip(places, said, strict=True) if text.strip()]
    if not ticks or any(map(_is_number, said)):
        return number_in_words
    reach = min(np.diff(sorted(place for place, _ in ticks)), default=1) / 2

    def word(value: float) -> str:
        place, text = min(ticks, key=lambda tick: abs(tick[0] - value))
        return " ".join(text.split()) if abs(place - value) <= reach else number_in_words(value)

    return word


def _is_number(text: str) -> bool:
    try:
        float(text.replace("\N{MINUS SIGN}", "-").replace("\N{THIN SPACE}", "").strip(" %"))
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    """A text on one line, without the marks of formulas."""
    return " ".join(text.replace("$", "").split())


def _label(figure: Canvas, panels: list[Axes], axes: Axes, name: str) -> str:
    """The label of an axis: its own, that of an aligned panel of the same range, or that of all."""

    def range_of(panel: Axes) -> tuple:
        box = panel.get_position()
        return (
            *(box.intervalx if name == "x" else box.intervaly),
            *getattr(panel, f"get_{name}lim")(),
        )

    def label(panel: Axes) -> str:
        return str(getattr(panel, f"get_{name}label")())

    common = getattr(figure, f"_sup{name}label")
    is_label = common is not None and common.get_fontsize() > SMALLEST_POINTS
    alike = [
        label(panel) for panel in panels if np.allclose(range_of(panel), range_of(axes), rtol=1e-3)
    ]
    labels = [label(axes), *alike, common.get_text().split("\n")[0] if is_label else ""]
    return _plain(next(filter(None, labels), ""))


def _of_colours(axes: Axes) -> str:
    """What the colours of a heat map mean, as its scale says."""
    scales = [artist.colorbar for artist in (*axes.images, *axes.collections) if artist.colorbar]
    return _plain(scales[0].ax.get_ylabel() or scales[0].ax.get_xlabel()) if scales else ""


def _names(figure: Canvas, axes: Axes) -> list[tuple[Artist, str]]:
    """What legends name: those of the panel before those of the figure."""
    legends = [axes.get_legend(), *figure.legends]
    return [
        (handle, text.get_text())
        for legend in legends
        if legend
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    ]


def _name(artist: Artist, names: list[tuple[Artist, str]]) -> str:
    """Its own label, that of the container that it begins, or of what looks like it in a legend."""
    of = [
        container
        for container in getattr(artist.axes, "containers", ())
        if len(container) and container[0] is artist
    ]
    own = str((of or [artist])[0].get_label())
    if own and not own.startswith("_"):
        return _plain(own)
    alike = [(handle, text) for handle, text in names if _colour(handle) == _colour(artist)]
    if len(alike) > 1:
        same = [(handle, text) for handle, text in alike if _look(handle) == _look(artist)]
        alike = same or alike
    texts = list(dict.fromkeys(text for _, text in alike))
    return _plain(texts[0]) if len(texts) == 1 else ""


def _is_neutral(colour: str) -> bool:
    """Whether it is black, white or a grey."""
    return len({colour[1:3], colour[3:5], colour[5:7]}) == 1


def _look(artist: Artist) -> tuple:
    if isinstance(artist, Line2D):
        return artist.get_marker(), artist.get_linestyle()
    return ()


def _colour(artist: Artist) -> str:
    if isinstance(artist, Line2D):
        return to_hex(artist.get_color())
    if not hasattr(artist, "get_facecolor"):
        return ""
    faces = np.atleast_2d(artist.get_facecolor())
    if len(faces) and faces[0][-1]:
        return to_hex(faces[0])
    edges = np.atleast_2d(artist.get_edgecolor())
    return to_hex(edges[0]) if len(edges) and edges.size else ""
