"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate
from posenc.conditions.positions import ROTATION
from posenc.drawing.exhibit import Exhibit

PARTIAL_SUMS = ("mask", "mask_key", "mask_query", "first_order")
MEANS = ("own", "no_first", "neighbours", "other_heads")
ROTATION_TERMS = (
    "documents", "tokens", "lowest_layer", "lowest",
    *(f"{weights}.{means}.{part}"
      for weights in ("pairs", "attention") for means in MEANS for part in PARTIAL_SUMS),
)  # fmt: skip


def rotation_terms(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What partial sums explain of what rotation adds to scores, with means of each kind."""
    entries = {(entry["weights"], entry["means"]): entry for entry in measurement["explained"]}
    layers = entries["pairs", "own"]["layers"]
    lowest = min(layers, key=lambda row: row["first_order"]["value"])
    facts: dict[str, Entry] = {part: Number(measurement[part]) for part in ("documents", "tokens")}
    facts |= {"lowest_layer": Number(lowest["layer"]), "lowest": estimate(lowest["first_order"])}
    for weights, means in itertools.product(("pairs", "attention"), MEANS):
        shares = entries.get((weights, means), {"all": {}})["all"]
        for part in PARTIAL_SUMS:
            value = estimate(shares.get(part), "no other head to take means from")
            facts[f"{weights}.{means}.{part}"] = value
    return facts


WORDS = {
    "documents": "documents",
    "tokens": "tokens",
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
QUANTITIES = Quantities(read=rotation_terms, names=ROTATION_TERMS, words=WORDS)
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
