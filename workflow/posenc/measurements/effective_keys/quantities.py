"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import ENDS, Facts, Number
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.effective_keys.result import EffectiveKeys

READ = tuple(f"{choice}.{end}" for choice in ("strongest", "nearest", "first_nearest", "random")
             for end in ENDS)  # fmt: skip
"""Which keys are read, and how many of them: what a study that has none lacks."""
COST = ("delta_nll", "cosine")
LENGTHS = (4, 16, 64, 128)
"""Keys that a query sees at least, up to twice as many: those that documents report."""
TOO_SHORT = Printed(absent="documents are too short")
NO_LOSS = Printed(absent="an encoder has no loss")
PRINTED: Fields = {
    "seen": Printed("keys that a query sees, geometric mean"),
    "keys": Printed("effective keys"),
    "others": Printed("effective keys without the first key"),
    "first": Printed("weight of the first key"),
    "largest": Printed("largest weight"),
    "growth": Printed(
        "growth: slope of log effective keys on log keys seen", absent=TOO_SHORT.absent
    ),
}
DERIVED = (
    "fewest", "fewest.layer", "most", "most.layer",
    *(f"seen_{length}.{part}" for length in LENGTHS for part in ("keys", "others")),
    *(f"{way}.{part}" for way in READ for part in COST),
)  # fmt: skip


def derived(result: EffectiveKeys) -> Facts:
    """How many keys are read, by layer and length, and what reading a few costs."""
    facts: Facts = {}
    for name, of in (("fewest", min), ("most", max)):
        layer = of(result.layers, key=lambda row: row.keys.value)
        facts[name], facts[f"{name}.layer"] = number(layer.keys), Number(layer.layer)
    lengths = {row.least: row for row in result.lengths}
    for length in LENGTHS:  # which others there are depends on the length of documents
        row = lengths.get(length)
        facts[f"seen_{length}.keys"] = number(row.keys if row else None, TOO_SHORT)
        facts[f"seen_{length}.others"] = number(row.others if row else None, TOO_SHORT)
    for reading in result.reading:
        if reading.keys is not None:
            way = f"{reading.choice}.{reading.keys}"
            facts[f"{way}.delta_nll"] = number(reading.delta_nll, NO_LOSS)
            facts[f"{way}.cosine"] = number(reading.cosine)
    return facts


WORDS = {
    "fewest": "effective keys of the layer with the fewest",
    "most": "effective keys of the layer with the most",
    "layer": "which layer",
    "seen_": "queries that see {} keys, up to twice as many",
    "strongest": "strongest keys alone",
    "nearest": "nearest keys alone",
    "first_nearest": "the first key and the nearest alone",
    "random": "random keys alone",
    "delta_nll": "loss, minus the intact model's (nats per token)",
    "cosine": "cosine of the last hidden state with the intact model's",
}
QUANTITIES = quantities(__package__, "EffectiveKeys", PRINTED, derived, DERIVED, WORDS)
FIGURE = Exhibit(
    "E1 and E2: how many keys attention reads",
    ("effective_keys",),
    height=6.2,
    caption="Effective keys (exp of the pattern's entropy; geometric mean over heads and "
    "queries), with and without the first key, by layer and by how many keys a query sees; "
    "dotted, keys that are read alike. Below, what it costs when each query of each head reads "
    "a few keys only.",
    alt="Line charts, a column for each model: effective keys against layer and against the "
    "number of keys that a query sees, and the loss, or the distance of the last hidden "
    "states, against the number of keys that are read.",
)
