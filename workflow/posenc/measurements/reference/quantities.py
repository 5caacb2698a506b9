"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, NotRun
from posenc.artifacts.printing import By, Fields, Printed, quantities

if TYPE_CHECKING:
    from posenc.measurements.reference.result import ReferenceLevels

LEVELS = {
    "uniform": "uniform guess",
    "unigram": "unigram model",
    "bigram": "bigram model",
    "trigram": "trigram model",
}
"""By the last word of a level's name, what a reader calls it."""
ABSENT = "not among the reference levels of this study"
PRINTED: Fields = {
    "levels": By("word", spoken=tuple(LEVELS), absent=ABSENT, words=LEVELS),
    "levels.perplexity": Printed(),
    "levels.bits_per_byte": Printed(),
}


def lacking(result: ReferenceLevels) -> Facts:
    """Why levels are left out, where the result says it."""
    if result.reason is None:
        return {}
    left_out = LEVELS.keys() - {level.word for level in result.levels}
    return {
        f"{word}.{quantity}": NotRun(result.reason)
        for word in left_out
        for quantity in ("perplexity", "bits_per_byte")
    }


QUANTITIES = quantities(__package__, "ReferenceLevels", PRINTED, lacking)
