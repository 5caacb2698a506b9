"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

SOURCES = ("position", "tokens", "attention", "mlp")
NORMS = ("first", "middle", "last")
LAYER_NORM = (
    "documents", "tokens", "variation", "product", "position_share", "between.embedding",
    "between.middle", "between.last", "shuffled", "relative.lowest",
    *(f"{norm}.{kind}.{name}" for norm in NORMS
      for kind, names in (("gain", ("position", "content", "shuffled", "relative")),
                          ("cosine", ("position", "content", "shuffled")),
                          ("from", SOURCES), ("content_from", SOURCES)) for name in names),
)  # fmt: skip


def layer_norm(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What normalisations do to position: the first, the one in the middle of all, the last."""
    norms = measurement["norms"]
    first, middle, last = norms[0], norms[len(norms) // 2], norms[-1]
    # The residual stream itself; a decoder's is what its normalisations are given.
    stream = "output" if measurement["placement"] == "after" else "input"
    unknown = "no position is left there to be seen"
    facts: dict[str, Entry] = {
        "documents": Number(measurement["documents"]),
        "tokens": Number(measurement["tokens"]),
        "variation": estimate(first["scale"]["variation"]),
        "product": estimate(last["variation"]),
        "position_share": estimate(first["shares"]["position"]),
        "between.embedding": estimate(first["between"][stream]),
        "between.middle": estimate(middle["between"][stream]),
        "between.last": estimate(last["between"]["output"]),
        "shuffled": estimate(last["between"]["shuffled"]),
    }
    relative = [norm["gain"]["relative"] for norm in norms if norm["gain"]["relative"]]
    lowest = min(relative, key=lambda gain: gain["value"], default=None)
    facts["relative.lowest"] = estimate(lowest, unknown)
    for name, norm in zip(NORMS, (first, middle, last), strict=True):
        for key, kind in (("gain", "gain"), ("cosine", "cosine"), ("from", "sources"),
                          ("content_from", "content_sources")):  # fmt: skip
            for part, value in norm[kind].items():
                facts[f"{name}.{key}.{part}"] = estimate(value, unknown)
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
QUANTITIES = Quantities(read=layer_norm, names=LAYER_NORM, words=WORDS)
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
