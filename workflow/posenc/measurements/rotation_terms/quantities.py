"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.conditions.positions import ROTATION
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.rotation_terms.result import RotationByOrder

PARTIAL_SUMS = ("mask", "mask_key", "mask_query", "first_order")
MEANS = ("own", "no_first", "neighbours", "other_heads")
PRINTED: Fields = {"documents": Printed("documents"), "tokens": Printed("tokens")}
NAMES = (
    "lowest_layer", "lowest",
    *(f"{weights}.{means}.{part}"
      for weights in ("pairs", "attention") for means in MEANS for part in PARTIAL_SUMS),
)  # fmt: skip


NO_OTHER = Printed(absent="no other head to take means from")


def explained(result: RotationByOrder) -> Facts:
    """What partial sums explain of what rotation adds to scores, with means of each kind."""
    entries = {(entry.weights, entry.means): entry for entry in result.explained}
    lowest = min(entries["pairs", "own"].layers, key=lambda layer: layer.first_order.value)
    facts: Facts = {
        "lowest_layer": Number(lowest.layer),
        "lowest": number(lowest.first_order),
    }
    for weights, means in itertools.product(("pairs", "attention"), MEANS):
        entry = entries.get((weights, means))
        for part in PARTIAL_SUMS:
            share = getattr(entry.all, part) if entry else None
            facts[f"{weights}.{means}.{part}"] = number(share, NO_OTHER)
    return facts


WORDS = {
    "lowest_layer": "layer in which all of first order explains least",
    "lowest": "share that it explains there",
    "pairs": "all pairs",
    "attention": "weighted by attention",
    "own": "means of the head",
    "no_first": "the same, without a mean of the first key's own",
    "neighbours": "means of the next head",
    "other_heads": "means of other heads",
    "mask": "share of what rotation adds, mask",
    "mask_key": "share of what rotation adds, mask and key",
    "mask_query": "share of what rotation adds, mask and query",
    "first_order": "share of what rotation adds, all of first order",
}
QUANTITIES = quantities(__package__, "RotationByOrder", PRINTED, explained, NAMES, WORDS)
FIGURE = Exhibit(
    "F7 rotation to first order",
    ("rotation_terms",),
    height=2.8,
    caption="What rotation adds to the scores of a head is a sum of four terms: one of the "
    "head's mean query and mean key, the mask; one that the key adds; one that the query adds; "
    "and a rest that needs both. Share of its variance within queries that partial sums "
    "explain, means over the heads of a layer, on documents that had no part in the means. "
    "Dotted, a control: all of first order with the means of other heads (shares below minus "
    "one are drawn there).",
    alt="Line charts, a panel for each data set: share explained against the layer, for four "
    "partial sums and a control.",
    positions=ROTATION,
)
