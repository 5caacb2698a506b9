"""A figure as SVG: small, with text as text, the same bytes each time, and the values it shows."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from posenc.drawing import values

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
PLACES = 1
"""Decimals of a coordinate, in points: a tenth of the thinnest line."""
CURVES = len(Path.unit_circle().vertices) // 3
"""Of a circle, as matplotlib draws it: each ends as far from its middle as the others."""
OFF_CIRCLE = 1e-3
"""By which rounding moves such an end, in points."""
ALIGNED = {"center": ("middle", 0.5), "right": ("end", 1.0)}
"""Anchor of texts of several lines, and the share of a line's width that is left of it."""
SHARED = "svg{font-family:'DejaVu Sans',Verdana,sans-serif;stroke-linejoin:round}"
"""Verdana has the widths of matplotlib's font, for which figures have room."""


def written(figure: Canvas, dots_per_inch: float) -> str:
    """A figure as SVG.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        In the shared style.
    dots_per_inch : float
        Of its bitmaps: heat maps, and lines of very many points.

    Returns
    -------
    str
        With the values that it shows (:func:`posenc.drawing.values.values`) as JSON in
        ``<metadata>``. The root of a figure whose lines are a bitmap has the class ``dense``.
    """
    buffer = io.StringIO()
    with _prepared(figure), matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", dpi=dots_per_inch, metadata={"Date": None})
        shown = values.values(figure)
    root = slim(ElementTree.fromstring(buffer.getvalue()))
    if values.is_dense(figure):
        root.set("class", "dense")
    metadata = ElementTree.SubElement(root, "metadata")
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    # Numbers that JavaScript writes as they are here need no quotes.
    metadata.text = re.sub(r'"((?:0|[1-9]\d{0,14})(?:\.\d{0,9}[1-9])?)"(?=[],])', r"\1", text)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


@contextlib.contextmanager
def _prepared(figure: Canvas) -> Iterator[None]:
    """Turn dense lines into a bitmap, and name texts of several lines by their alignment."""
    lines = [line for axes in figure.axes for line in axes.lines] if values.is_dense(figure) else []
    texts = [text for text in figure.findobj(Text) if "\n" in text.get_text()]
    for line in lines:
        line.set_rasterized(True)
    for text in texts:
        aligned = text._multialignment or text.get_horizontalalignment()
        text.set_gid(aligned)
    try:
        yield
    finally:
        for line in lines:
            line.set_rasterized(None)
        for text in texts:
            text.set_gid(None)


def slim(root: ElementTree.Element) -> ElementTree.Element:
    """The same drawing in a third of the size.

    Groups are dissolved into what they hold, neighbours that look alike become one path or share
    a group, coordinates are rounded, and only what is referred to keeps a name.

    Parameters
    ----------
    root : Element
        What matplotlib's backend wrote.

    Returns
    -------
    Element
        A new root, without namespaces: ``xmlns`` is an attribute.
    """
    parts = list(_parts(root, ""))
    defined = {
        f"#{part.get('id')}": _copied(part)
        for part in root.iter()
        if part.get("id") and _kind(part) in ("path", "clipPath")
    }
    # Marks that look alike have one definition; what is drawn once needs none.
    looks = {key: ElementTree.tostring(part) for key, part in defined.items()}
    drawn = Counter(looks[part.get("href", "")] for part in parts if part.tag == "use")
    svg = ElementTree.Element("svg", {"xmlns": SVG, "viewBox": root.get("viewBox", "")})
    ElementTree.SubElement(svg, "style").text = SHARED
    definitions = ElementTree.SubElement(svg, "defs")
    names: dict[bytes, str] = {}

    def name_of(key: str) -> str:
        if looks[key] not in names:
            names[looks[key]] = f"d{len(names)}"
            defined[key].set("id", names[looks[key]])
            definitions.append(defined[key])
        return f"#{names[looks[key]]}"

    group, clip = svg, ""
    for part in parts:
        if part.tag == "use" and drawn[looks[part.get("href", "")]] == 1:
            _put_in(part, defined[part.get("href", "")])
        elif part.tag == "use":
            part.set("href", name_of(part.get("href", "")))
        wanted = part.attrib.pop("clip-path", "")
        if wanted != clip:
            group, clip = svg, wanted
            if clip:
                clipped = {"clip-path": f"url({name_of(clip[4:-1])})"}
                group = ElementTree.SubElement(svg, "g", clipped)
        last = group[-1] if len(group) else None
        if last is not None and _are_one(last, part):
            last.set("d", last.get("d", "") + part.get("d", ""))
        else:
            group.append(part)
    return svg


def _parts(element: ElementTree.Element, clip: str) -> Iterator[ElementTree.Element]:
    """What is drawn, in order, with the clip path of its groups."""
    lines = element.get("id", "")
    for child in element:
        kind = _kind(child)
        inner = child.get("clip-path", clip)
        if kind == "g":
            yield from _parts(child, inner)
        elif kind not in ("metadata", "defs", "style"):
            more = {"clip-path": inner} if inner else {}
            part = _circle(child, more) if kind == "path" else None
            if part is None:
                part = _copied(child, more)
            if kind == "text" and lines in ALIGNED and "text-anchor" not in part.get("style", ""):
                _anchor(part, *ALIGNED[lines])
            yield part


def _circle(path: ElementTree.Element, more: dict[str, str]) -> ElementTree.Element | None:
    """A path that is a circle, as one: a quarter of the text. None if it is not."""
    text = path.get("d", "")
    if path.get("transform") or re.sub(r"[^A-Za-z]", "", text) != f"M{'C' * CURVES}z":
        return None
    numbers = [float(number) for number in re.findall(r"[^\sA-Za-z]+", text)]
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    ends = points[::3]  # the first point, and the last of each curve
    x, y = (sum(places) / CURVES for places in zip(*ends[1:], strict=True))
    radii = [math.dist((x, y), end) for end in ends]
    if max(radii) - min(radii) > OFF_CIRCLE:
        return None
    place = {"cx": _rounded(str(x)), "cy": _rounded(str(y))}
    look = {"r": _rounded(str(radii[0]), PLACES + 1), "style": _style(path.get("style", ""))}
    return ElementTree.Element("circle", place | look | more)


def _put_in(use: ElementTree.Element, path: ElementTree.Element) -> None:
    """Draw a definition where it is used; the style there overrides its own."""
    use.tag = "path"
    style = ";".join(filter(None, (path.get("style"), use.get("style"))))
    moved = f"translate({use.attrib.pop('x', '0')} {use.attrib.pop('y', '0')})"
    del use.attrib["href"]
    use.attrib |= {"d": path.get("d", ""), "style": style, "transform": moved}


def _are_one(last: ElementTree.Element, part: ElementTree.Element) -> bool:
    """Whether two paths may be drawn as one: opaque lines that look alike."""
    style = part.get("style", "")
    return (
        last.tag == part.tag == "path"
        and last.attrib.keys() == part.attrib.keys() == {"d", "style"}
        and last.get("style") == style
        and "fill:none" in style
        and "opacity" not in style
    )


def _anchor(text: ElementTree.Element, anchor: str, share: float) -> None:
    """Place a line by its middle or end, which holds in any font."""
    style = text.get("style", "")
    properties = dict(re.findall(r"font-(size|weight|style):([^;]+)", style))
    font = FontProperties(
        family="DejaVu Sans",
        size=float(properties["size"].removesuffix("px")),
        weight=properties.get("weight", "normal"),
        style=properties.get("style", "normal"),
    )
    width, _, _ = text_to_path.get_text_width_height_descent(text.text, font, ismath=False)
    text.set("x", _rounded(str(float(text.get("x", 0)) + share * width)))
    text.set("style", f"{style};text-anchor:{anchor}")


def _copied(
    element: ElementTree.Element, more: dict[str, str] | None = None
) -> ElementTree.Element:
    """A copy without namespaces, name, and digits that nobody sees."""
    copy = ElementTree.Element(_kind(element))
    copy.text = element.text if copy.tag in ("text", "tspan") else None
    for key, value in element.items():
        if key == "d":
            copy.set(key, _path(value))
        elif key == "style":
            copy.set(key, _style(value))
        elif key == HREF:
            copy.set("href", "".join(value.split()))
        elif key == "transform":
            if kept := re.sub(r"rotate\(-?0 [^)]*\)", "", value).strip():
                copy.set(key, _rounded(kept))
        elif key not in ("id", "clip-path"):
            copy.set(key, _rounded(value))
    if moved := re.fullmatch(r"translate\((\S+) (\S+)\)", copy.get("transform", "")):
        del copy.attrib["transform"]
        copy.attrib |= {"x": moved[1], "y": moved[2]}
    if copy.tag in ("text", "clipPath"):
        copy.extend([_copied(child) for child in element])
    copy.attrib |= more or {}
    return copy


def _kind(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _rounded(text: str, places: int = PLACES) -> str:
    """A text whose decimal fractions have few decimals."""

    def short(match: re.Match[str]) -> str:
        return f"{float(match[0]):.{places}f}".rstrip("0").rstrip(".")

    return re.sub(r"-?\d+\.\d+", short, text)


def _path(text: str) -> str:
    """A path in short: after M or L, further pairs are lines too."""
    short = re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(_rounded(text).split()))
    return re.sub(
        r"(?<=[ML])([^A-Za-z]+)(?:L[^A-Za-z]+)+", lambda run: run[0].replace("L", " "), short
    )


def _style(text: str) -> str:
    declarations = (part.strip() for part in _rounded(text, 2).split(";"))
    kept = (part.replace(": ", ":") for part in declarations if not part.startswith("font-family"))
    return ";".join(kept)
