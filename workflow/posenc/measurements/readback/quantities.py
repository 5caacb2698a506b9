"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

LEVELS = ("exact", "weak", "strong")
READBACK = (
    *(f"{place}.{level}" for place in ("before", "after") for level in LEVELS),
    *(f"alone.{what}" for what in ("token", "position")),
    "noise.weak", "noise.strong", "margin", "pairs", "searched", "mistaken",
    "bound.pairs", "bound.before", "bound.after", "angle", "angle_random",
)  # fmt: skip


def readback(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Share of pairs that are read back: without noise, and at two levels of it.

    Bounds are of the percentage that fails with weak noise.
    """
    facts: dict[str, Entry] = {}
    count = len(measurement["before"])
    places = dict(zip(LEVELS, (0, count // 2, count - 1), strict=True))
    for name in ("before", "after"):
        for level, place in places.items():
            facts[f"{name}.{level}"] = estimate(measurement[name][place]["joint"]["both"])
    for what in ("token", "position"):
        facts[f"alone.{what}"] = estimate(measurement["before"][0]["alone"][what])
    for level in LEVELS[1:]:
        noise = measurement["before"][places[level]]["noise"]
        facts[f"noise.{level}"] = Number(noise, decimals=len(f"{noise:g}".partition(".")[2]))
    facts["margin"] = Number(measurement["before"][0]["margin"]["least"])
    facts["pairs"], facts["searched"] = (
        Number(measurement["pairs"]),
        Number(measurement["pairs_searched"]),
    )
    facts["mistaken"] = Number(measurement["mistaken"])
    facts["bound.pairs"] = Number(measurement["bounds"]["pairs"])
    for name in ("before", "after"):
        facts[f"bound.{name}"] = Number(100 * measurement["bounds"][name]["upper"])
    for key, name in (("angle", "angles"), ("angle_random", "random")):
        facts[key] = Number(math.degrees(statistics.median(measurement["subspaces"][name])))
    return facts


WORDS = {
    "before": "share of pairs read back before LayerNorm",
    "after": "share of pairs read back after LayerNorm",
    "alone": "share read back with the other unknown",
    "exact": "no noise",
    "weak": "weak noise",
    "strong": "strong noise",
    "noise": "level of the noise",
    "margin": "least margin",
    "pairs": "pairs",
    "searched": "pairs searched",
    "mistaken": "pairs, of all, that are mistaken without noise",
    "bound": "upper confidence bound of failures with weak noise (%)",
    "angle": "median principal angle of both tables (degrees)",
    "angle_random": "the same of random subspaces (degrees)",
}
QUANTITIES = Quantities(read=readback, names=READBACK, words=WORDS)
FIGURE = Exhibit(
    "B2 reading back",
    ("readback",),
    height=3.8,
    caption="How much noise stands before a token and its position are no longer read back "
    "from the sum of their embeddings: share read back against noise in units of the root mean "
    "square of the vectors' entries, before LayerNorm (above; dotted, of one table alone) and "
    "after it (below). Right, principal angles between the leading directions of both tables, "
    "beside those of random subspaces.",
    alt="Line charts, a column for each model: share of pairs read back against noise, before "
    "LayerNorm and after it; and principal angles of two subspaces against their rank.",
)
