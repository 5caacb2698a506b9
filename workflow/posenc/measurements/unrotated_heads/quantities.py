"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import ENDS, Facts, Number
from posenc.artifacts.printing import Fields, Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.unrotated_heads.result import Rotations

HOW = ("strongest", "weakest", "random", "only_strongest", "only_random")
OF_SETS = {
    "delta_nll": "loss, minus the intact model's (nats per token)",
    "share": "the same, as a share of what all heads cost",
}
PRINTED: Fields = {
    "documents": Printed("documents"),
    "tokens": Printed("tokens that are predicted"),
    "all": Printed("loss without any rotation, minus the intact model's (nats per token)"),
    "agreement_of_halves": Printed(
        "rank correlation of the heads' costs on two halves of the documents", name="agreement"
    ),
}


def of_heads(result: Rotations) -> Facts:
    """What the head that costs most, keys and sets of heads lose without rotation."""
    most = max(result.heads, key=lambda head: head.delta_nll.value)
    facts: Facts = {
        "above_zero": Number(sum(head.delta_nll.low > 0 for head in result.heads)),
        "head": number(most.delta_nll),
        "head.layer": Number(most.layer),
        "head.index": Number(most.head),
    }
    facts |= {f"key_{key.key}": number(key.delta_nll) for key in result.keys}
    return facts | {
        f"{heads.choice}.{heads.count}.{part}": number(getattr(heads, part))
        for heads in result.sets
        for part in OF_SETS
    }


NAMES = (
    "above_zero", "head", "head.layer", "head.index", *(f"key_{end}" for end in ENDS),
    *(f"{how}.{end}.{part}" for how in HOW for end in ENDS for part in OF_SETS),
)  # fmt: skip
WORDS = {
    "strongest": "heads that cost most",
    "weakest": "heads that cost least",
    "random": "heads at random",
    "only_strongest": "all but the heads that cost most",
    "only_random": "all but heads at random",
    "head": "cost of the head that costs most (nats per token)",
    "layer": "which layer",
    "key_0": "no rotation in pairs with the first key",
    "key_1": "with the second key",
    "key_": "with the key at place {}",
    "above_zero": "heads whose interval is above 0",
    **OF_SETS,
}
QUANTITIES = quantities(__package__, "Rotations", PRINTED, of_heads, NAMES, WORDS)
FIGURE = Exhibit(
    "F5 where rotation acts",
    ("unrotated_heads",),
    height=3.0,
    caption="Left: what the loss gains when one head alone has no rotation. Right: when the "
    "heads that cost most, least, or any, lose rotation together, as a share of what all heads "
    "cost; on documents that had no part in the choice of heads.",
    alt="A map of layers and heads coloured by the cost of each head, and a line chart of the "
    "share of the cost against the number of heads without rotation.",
    drawn="first model",
)
