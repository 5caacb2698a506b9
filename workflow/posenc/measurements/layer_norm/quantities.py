"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.artifacts.results import Interval
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.layer_norm.result import Normalisation, Path

NORMS = ("first", "middle", "last")
SOURCES = ("position", "tokens", "attention", "mlp")
KINDS = {
    "gain": ("position", "content", "shuffled", "relative"),
    "cosine": ("position", "content", "shuffled"),
    "from": SOURCES, "content_from": SOURCES,
}  # fmt: skip
NAMES = (
    "variation", "product", "position_share", "between.embedding", "between.middle",
    "between.last", "shuffled", "relative.lowest",
    *(f"{norm}.{key}.{part}" for norm in NORMS for key, parts in KINDS.items()
      for part in parts),
)  # fmt: skip
SEEN = Printed(absent="no position is left there to be seen")
PRINTED: Fields = {"documents": Printed(), "tokens": Printed()}


def along_the_path(result: Path) -> Facts:
    """What normalisations do to position: the first, the one in the middle of all, the last."""
    norms = result.norms
    first, middle, last = norms[0], norms[len(norms) // 2], norms[-1]

    def stream(norm: Normalisation) -> Interval | None:
        """The residual stream; a decoder's is what its normalisations are given."""
        return norm.between.output if result.placement == "after" else norm.between.input

    relative = [norm.gain.relative for norm in norms if norm.gain.relative]
    lowest = min(relative, key=lambda gain: gain.value, default=None)
    facts: Facts = {
        "variation": number(first.scale.variation),
        "product": number(last.variation),
        "position_share": number(first.shares.position),
        "between.embedding": number(stream(first)),
        "between.middle": number(stream(middle)),
        "between.last": number(last.between.output),
        "shuffled": number(last.between.shuffled),
        "relative.lowest": number(lowest, SEEN),
    }
    for name, norm in zip(NORMS, (first, middle, last), strict=True):
        of_kinds = (norm.gain, norm.cosine, norm.sources, norm.content_sources)
        for (key, parts), kind in zip(KINDS.items(), of_kinds, strict=True):
            for part in parts:
                facts[f"{name}.{key}.{part}"] = number(getattr(kind, part), SEEN)
    return facts


WORDS = {
    "variation": "relative variation of the first scale",
    "product": "relative variation of the product of all scales that position has passed",
    "position_share": "share of the first output's variance that is of the embedding P",
    "between": "share of variance between positions",
    "first": "first normalisation",
    "middle": "in the middle of all normalisations",
    "last": "last normalisation",
    "shuffled": "at shuffled positions",
    "gain": "gain along the part",
    "cosine": "cosine of the parts before and after",
    "relative": "position's gain over content's",
    "lowest": "lowest of all normalisations",
    "from": "share of position's part that has come from",
    "content_from": "share of content's part that has come from",
    "position": "position",
    "content": "content",
    "attention": "attention",
    "mlp": "MLPs",
}
QUANTITIES = quantities(__package__, "Path", PRINTED, along_the_path, NAMES, WORDS)
FIGURE = Exhibit(
    "C5 where position goes",
    ("layer_norm",),
    height=7.0,
    caption="Along all normalisations of a model: their scales; spectrum of positions before "
    "and after the first; share of the variance of the residual stream between positions; gain "
    "of position's mean part over that of content; and which share of position's part has come "
    "from the embedding P itself, from attention, and from MLPs.",
    alt="Line charts by normalisation: scales, share of variance between positions, gain of "
    "position over content, sources of position; and spectra before and after the first.",
)
