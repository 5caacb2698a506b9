"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, Quantities

LEVELS = ("uniform", "unigram", "bigram", "trigram")
REFERENCE = tuple(f"{level}.{key}" for level in LEVELS for key in ("perplexity", "bits_per_byte"))


def reference_facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of reference levels, by the last word of their names."""
    reason = measurement["reason"] or "not among the reference levels of this study"
    facts: dict[str, Entry] = dict.fromkeys(REFERENCE, NotRun(reason))
    for level in measurement["levels"]:
        for key in ("perplexity", "bits_per_byte"):
            facts[f"{level['level'].split()[-1]}.{key}"] = Number(**level[key])
    return facts


WORDS = {
    "uniform": "uniform guess",
    "unigram": "unigram model",
    "bigram": "bigram model",
    "trigram": "trigram model",
}
QUANTITIES = Quantities(read=reference_facts, names=REFERENCE, words=WORDS)
