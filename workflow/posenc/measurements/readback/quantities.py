"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.readback.result import PairsReadBack

LEVELS = ("exact", "weak", "strong")
PRINTED: Fields = {
    "pairs": Printed("pairs"),
    "pairs_searched": Printed("pairs searched", name="searched"),
    "mistaken": Printed("pairs, of all, that are mistaken without noise"),
    "bounds": Printed("upper confidence bound of failures with weak noise (%)", name="bound"),
    "bounds.pairs": Printed("pairs"),
}
DERIVED = (
    *(f"{stage}.{level}" for stage in ("before", "after") for level in LEVELS),
    "alone.token", "alone.position", "noise.weak", "noise.strong", "margin",
    "bound.before", "bound.after", "angle", "angle_random",
)  # fmt: skip


def derived(result: PairsReadBack) -> Facts:
    """Share of pairs that are read back: without noise, and at two levels of it.

    Bounds are of the percentage that fails with weak noise.
    """
    facts: Facts = {}
    clean, count = result.before[0], len(result.before)
    places = dict(zip(LEVELS, (0, count // 2, count - 1), strict=True))
    for stage, levels in (("before", result.before), ("after", result.after)):
        for level, place in places.items():
            facts[f"{stage}.{level}"] = number(levels[place].joint.both)
    facts["alone.token"] = number(clean.alone.token)
    facts["alone.position"] = number(clean.alone.position)
    for level in LEVELS[1:]:
        noise = result.before[places[level]].noise
        facts[f"noise.{level}"] = Number(noise, decimals=len(f"{noise:g}".partition(".")[2]))
    facts["margin"] = Number(clean.margin.least)
    for stage, failed in (("before", result.bounds.before), ("after", result.bounds.after)):
        facts[f"bound.{stage}"] = Number(100 * failed.upper)
    angles = {"angle": result.subspaces.angles, "angle_random": result.subspaces.random}
    for key, values in angles.items():
        facts[key] = Number(math.degrees(statistics.median(values)))
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
    "angle": "median principal angle of both tables (degrees)",
    "angle_random": "the same of random subspaces (degrees)",
}
QUANTITIES = quantities(__package__, "PairsReadBack", PRINTED, derived, DERIVED, WORDS)
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
