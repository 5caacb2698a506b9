"""Bits per byte, what is left to learn, and tokens of tokenizers, with and without NFKC."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, NullLocator

from posenc.artifacts.runs import of_kind
from posenc.drawing import common
from posenc.drawing.command import command
from posenc.drawing.section import Figure, Style
from posenc.experiments.tokenizers.result import Comparison, Tokenizer
from posenc.metrics.tokenizers import FLAT

KINDS = {
    "whitespace": "words",
    "character": "characters",
    "bpe": "byte-level\nBPE",
    "unigram": "Unigram",
}


@common.drawing
def draw(canvas: Canvas, measurements: list[dict], figure: Figure, style: Style) -> None:
    """Draw a row per kind of tokenizer, a colour per data set, open marks after NFKC.

    Parameters
    ----------
    measurements : list of dict
        The measurement of tokenizers.

    Returns
    -------
    Four panels: bits per byte of the original text with intervals over seeds, and a tick at
    what they are without the spelling of unknown pieces; by how much validation bits still fell in
    the last third of the training, and where that is called flat; tokens per character; entries of
    the vocabulary.
    """
    runs = of_kind(measurements, "tokenizers", Comparison)
    measured = common.measured(canvas, runs, "no measurement")
    if not measured:
        return
    entries = measured[0].result.tokenizers
    kinds = [kind for kind in KINDS if any(entry.kind == kind for entry in entries)]
    groups = common.unique((entry.dataset, entry.normalization) for entry in entries)
    colours = dict(zip(common.unique(name for name, _ in groups), style.palette, strict=False))
    panels = canvas.subplots(1, 4, sharey=True, width_ratios=[2, 1.1, 1.2, 1.1])
    for entry in entries:
        place = kinds.index(entry.kind) + _offset(
            groups.index((entry.dataset, entry.normalization)), len(groups)
        )
        _point(panels, entry, place, colours[entry.dataset])
    _finish(panels, [KINDS[kind] for kind in kinds])
    for name, colour in colours.items():
        panels[0].plot([], [], "o", color=colour, ms=4, label=common.display(name))
    if any(normalization == "NFKC" for _, normalization in groups):
        panels[0].plot([], [], "o", color=common.GREY, mfc="white", ms=4, label="after NFKC")
    panels[0].plot([], [], "|", color=common.GREY, ms=6, label="unknown pieces not counted")
    common.legend_above(canvas, panels, columns=5)


def _offset(index: int, count: int) -> float:
    """Where in a row of height 1 the points of a data set and normalisation lie."""
    return 0.7 * ((index + 0.5) / count - 0.5)


def _point(panels: list[Axes], entry: Tokenizer, place: float, colour: str) -> None:
    look = {
        "color": colour,
        "mfc": "white" if entry.normalization == "NFKC" else colour,
        "ms": 4,
    }
    bits = entry.bits_per_original_byte
    panels[0].plot([bits.total.low, bits.total.high], [place] * 2, color=colour)
    panels[0].plot(bits.total.value, place, "o", **look)
    if entry.unknown.tokens:
        panels[0].plot(bits.model.value, place, "|", color=colour, ms=6, clip_on=False)
    panels[1].plot(100 * entry.fall.value, place, "o", **look)
    panels[2].plot(entry.fertility.per_character, place, "o", **look)
    panels[3].plot(entry.vocabulary, place, "o", **look)


def _finish(panels: list[Axes], names: list[str]) -> None:
    bits, fall, tokens, vocabulary = panels
    bits.set_yticks(range(len(names)), names)
    bits.set_ylim(len(names) - 0.5, -0.5)
    bits.set_xlim(left=0)
    bits.set_xlabel("bits per byte of the original")
    fall.axvline(100 * FLAT, color=common.GREY, lw=0.8, ls="--")
    fall.set_xlabel("still falling (%)")
    tokens.set_xscale("log")
    tokens.set_xlabel("tokens per character")
    low, high = tokens.dataLim.intervalx
    # Not the same on both sides: a point in the very middle lies between two digits of the file,
    # and its last bit decides.
    tokens.set_xlim(low / 1.6, high * 1.7)
    vocabulary.set_xlim(0, 1.15 * vocabulary.dataLim.intervalx[1])
    vocabulary.set_xlabel("vocabulary (tokens)")
    vocabulary.locator_params(axis="x", nbins=4)
    ticks = common.logarithmic_ticks(low / 1.6, high * 1.7, 5)
    tokens.xaxis.set_major_locator(FixedLocator(ticks))
    tokens.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    tokens.xaxis.set_minor_locator(NullLocator())
    for axes in panels:
        axes.grid(axis="x", color=common.LIGHT, lw=0.5)
        axes.set_axisbelow(True)
        for row in range(len(names) - 1):
            axes.axhline(row + 0.5, color=common.LIGHT, lw=0.5)
    for axes in panels[1:]:
        axes.tick_params(labelleft=False, left=False)


main = command(draw, Figure)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
