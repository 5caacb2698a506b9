"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import ENDS, Entry, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

HOW = ("strongest", "weakest", "random", "only_strongest", "only_random")
UNROTATED_HEADS = (
    "documents", "tokens", "all", "agreement", "above_zero", "head", "head.layer", "head.index",
    *(f"key_{end}" for end in ENDS),
    *(f"{how}.{end}.{part}" for how in HOW for end in ENDS for part in ("delta_nll", "share")),
)  # fmt: skip


def unrotated_heads(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What all heads, the head that costs most, keys and sets of heads lose without rotation."""
    most = max(measurement["heads"], key=lambda entry: entry["delta_nll"]["value"])
    facts: dict[str, Entry] = {
        "documents": Number(measurement["documents"]),
        "tokens": Number(measurement["tokens"]),
        "all": estimate(measurement["all"]),
        "agreement": Number(measurement["agreement_of_halves"]),
        "above_zero": Number(sum(entry["delta_nll"]["low"] > 0 for entry in measurement["heads"])),
        "head": estimate(most["delta_nll"]),
        "head.layer": Number(most["layer"]),
        "head.index": Number(most["head"]),
    }
    facts |= {f"key_{entry['key']}": estimate(entry["delta_nll"]) for entry in measurement["keys"]}
    for entry in measurement["sets"]:
        for part in ("delta_nll", "share"):
            facts[f"{entry['choice']}.{entry['count']}.{part}"] = estimate(entry.get(part))
    return facts


WORDS = {
    "documents": "documents",
    "tokens": "tokens that are predicted",
    "all": "loss without any rotation, minus the intact model's (nats per token)",
    "strongest": "heads that cost most",
    "weakest": "heads that cost least",
    "random": "heads at random",
    "only_strongest": "all but the heads that cost most",
    "only_random": "all but heads at random",
    "delta_nll": "loss, minus the intact model's (nats per token)",
    "share": "the same, as a share of what all heads cost",
    "head": "cost of the head that costs most (nats per token)",
    "layer": "which layer",
    "key_0": "no rotation in pairs with the first key",
    "key_1": "with the second key",
    "key_": "with the key at place {}",
    "above_zero": "heads whose interval is above 0",
    "agreement": "rank correlation of the heads' costs on two halves of the documents",
}
QUANTITIES = Quantities(read=unrotated_heads, names=UNROTATED_HEADS, words=WORDS)
FIGURE = Exhibit(
    "F5 where rotation acts",
    ("unrotated_heads",),
    height=3.0,
    caption="Left: what the loss gains when one head alone has no rotation. Right: when the "
    "heads that cost most, least, or any, lose rotation together, as a share of what all heads "
    "cost; on documents that had no part in the choice of heads.",
    alt="A map of layers and heads coloured by the cost of each head, and a line chart of the "
    "share of the cost against the number of heads without rotation.",
)
