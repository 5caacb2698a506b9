"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import ENDS, Facts, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

READ = tuple(f"{choice}.{end}" for choice in ("strongest", "nearest", "first_nearest", "random")
             for end in ENDS)  # fmt: skip
"""Which keys are read, and how many of them: what a study that has none lacks."""
COST = ("delta_nll", "cosine")
LENGTHS = (4, 16, 64, 128)
"""Keys that a query sees at least, up to twice as many: those that documents report."""
EFFECTIVE_KEYS = (
    "seen", "keys", "others", "first", "largest", "fewest", "fewest.layer", "most", "most.layer",
    "growth", *(f"seen_{length}.{part}" for length in LENGTHS for part in ("keys", "others")),
    *(f"{way}.{part}" for way in READ for part in COST),
)  # fmt: skip


def effective_keys(measurement: Mapping[str, Any]) -> Facts:
    """How many keys are read, by layer and length, and what reading a few costs."""
    numbers: Facts = {"seen": Number(measurement["seen"])}
    numbers |= {
        name: estimate(measurement[name]) for name in ("keys", "others", "first", "largest")
    }
    for name, of in (("fewest", min), ("most", max)):
        layer = of(measurement["layers"], key=lambda row: row["keys"]["value"])
        numbers[name], numbers[f"{name}.layer"] = estimate(layer["keys"]), Number(layer["layer"])
    numbers["growth"] = estimate(measurement["growth"], "documents are too short")
    lengths = {row["from"]: row for row in measurement["lengths"]}
    for length in LENGTHS:  # which others there are depends on the length of documents
        row = lengths.get(length, {"keys": None, "others": None})
        for part in ("keys", "others"):
            numbers[f"seen_{length}.{part}"] = estimate(row[part], "documents are too short")
    ways = {
        f"{entry['choice']}.{entry['keys']}": entry
        for entry in measurement["reading"]
        if entry["keys"] is not None
    }
    for way, entry in ways.items():
        numbers |= {
            f"{way}.{part}": estimate(entry[part], "an encoder has no loss") for part in COST
        }
    return numbers


WORDS = {
    "seen": "keys that a query sees, geometric mean",
    "keys": "effective keys",
    "others": "effective keys without the first key",
    "first": "weight of the first key",
    "largest": "largest weight",
    "fewest": "effective keys of the layer with the fewest",
    "most": "effective keys of the layer with the most",
    "layer": "which layer",
    "growth": "growth: slope of log effective keys on log keys seen",
    "seen_": "queries that see {} keys, up to twice as many",
    "strongest": "strongest keys alone",
    "nearest": "nearest keys alone",
    "first_nearest": "the first key and the nearest alone",
    "random": "random keys alone",
    "delta_nll": "loss, minus the intact model's (nats per token)",
    "cosine": "cosine of the last hidden state with the intact model's",
}
QUANTITIES = Quantities(read=effective_keys, names=EFFECTIVE_KEYS, words=WORDS)
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
