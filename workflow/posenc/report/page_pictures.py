"""Figures of the page: their SVG in its colours, light and dark, with shared looks."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from PIL import Image

COLOURS = 128
"""Of a picture in a figure."""
PIXELS = 2.0
"""Of a point of a figure, where the window is as wide: its text is as large as that of tables."""
DARK_PAPER = "#16171a"
"""That of page.css."""
CONTRAST = 3.0
"""Of what is drawn in a colour, at least (WCAG 1.4.11)."""


@dataclass
class Pictures:
    """All figures of a page, which share their looks: one class of CSS for each.

    ``japanese`` has by what they look like what that is in Japanese.
    """

    japanese: Mapping[str, str] = field(default_factory=dict)
    looks: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def picture(self, svg: str, alt: str) -> dict[str, object]:
        """A figure as its SVG for the page.

        Parameters
        ----------
        svg : str
            What :func:`posenc.drawing.svg.written` wrote.
        alt : str
            What it looks like, in English.

        Returns
        -------
        dict
            ``svg``; its width in pixels, and its ratio to the height; whether it has values;
            whether its lines are a bitmap, which stays on white.
        """
        width, height = (float(part) for part in _found(r'viewBox="0 0 (\S+) (\S+)"', svg))
        body = re.sub(r"^<svg[^>]*>|<style>.*?</style>|<defs />", "", svg.strip(), flags=re.S)
        body = re.sub(r"data:image/png;base64,([^\"]+)", _smaller, body)
        body = re.sub(r'style="([^"]*)"', self._look, body).replace(" />", "/>")
        # The names of parts have the number of their figure.
        self.count += 1
        body = re.sub(r'(?<= id=")(?=d\d+")|(?<="#)(?=d\d)|(?<=url\(#)', f"f{self.count}", body)
        opened = f'<svg viewBox="0 0 {width:g} {height:g}" role="img"'
        form = f' data-ja="{html.escape(self.japanese[alt])}"' if alt in self.japanese else ""
        return {
            "svg": f'{opened} aria-label="{html.escape(alt)}"{form}>{body}',
            "width": round(PIXELS * width),
            "shape": f"{width:g} / {height:g}",
            "has_values": '"series":[]' not in svg,
            "is_dense": 'class="dense"' in svg,
        }

    def _look(self, style: re.Match[str]) -> str:
        name = self.looks.setdefault(style[1], f"l{len(self.looks)}")
        return f'class="{name}"'

    def css(self) -> str:
        """The style sheet of the looks."""
        return "\n".join(
            f".{name}{{{re.sub('#[0-9a-f]{6}', lambda match: themed(match[0]), look)}}}"
            for look, name in self.looks.items()
        )


def themed(colour: str) -> str:
    """A colour of matplotlib in CSS that is right on light paper and on dark.

    Black is the page's ink, white its paper, and greys lie between. Other colours stay; on dark
    paper they are as light as they have to be.
    """
    channels = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    if len(set(channels)) == 1:
        share = round(100 * channels[0] / 255)
        if share in (0, 100):
            return "var(--paper)" if share else "var(--ink)"
        return f"color-mix(in srgb,var(--ink),var(--paper) {share}%)"
    lighter = on_dark(colour)
    return colour if lighter == colour else f"light-dark({colour},{lighter})"


def on_dark(colour: str) -> str:
    """The colour, with as much white as it needs on dark paper."""
    for white in range(0, 101, 5):
        mixed = _mixed(colour, white / 100)
        if contrast(mixed, DARK_PAPER) >= CONTRAST:
            break
    return mixed


def contrast(first: str, second: str) -> float:
    """Ratio of luminances, from 1 to 21 (WCAG 2, "contrast ratio")."""
    darker, lighter = sorted(_luminance(colour) for colour in (first, second))
    return (lighter + 0.05) / (darker + 0.05)


def _mixed(colour: str, white: float) -> str:
    channels = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(c + white * (255 - c)):02x}" for c in channels)


def _luminance(colour: str) -> float:
    shares = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _smaller(match: re.Match[str]) -> str:
    """A picture in a smaller format."""
    with Image.open(io.BytesIO(base64.b64decode(match[1]))) as picture:
        webp = io.BytesIO()
        # No eye tells more colours apart, and these take a third less.
        whole = picture.convert("RGBA")
        mode = "RGB" if whole.getchannel("A").getextrema() == (255, 255) else "RGBA"
        few = whole.convert(mode).quantize(COLOURS, dither=Image.Dither.NONE).convert(mode)
        few.save(webp, format="WEBP", lossless=True, quality=80, method=4)
    return f"data:image/webp;base64,{base64.b64encode(webp.getvalue()).decode()}"


def _found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"a figure has no {pattern}")
    return match.groups()
