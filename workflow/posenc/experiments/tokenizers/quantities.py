"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities, estimate, percent
from posenc.drawing.exhibit import Exhibit

BITS = tuple(f"none.{kind}.bits_per_byte" for kind in ("bpe", "unigram", "whitespace", "character"))
SPOKEN = {"reviews": BITS, "japanese": (*BITS, "NFKC.bpe.change")}
"""By the role of a data set, what documents speak of."""


def tokenizers(measurement: Mapping[str, Any]) -> dict[tuple[str, str], Entry]:
    """Bits a byte of the original text, and facts: by data set, and by normalisation and kind."""
    flat = [
        bool(choice["flat"]) for entry in measurement["tokenizers"] for choice in entry["choices"]
    ]
    facts: dict[tuple[str, str], Entry] = {
        ("", "seeds"): Number(len(measurement["seeds"])),
        ("", "trainings"): Number(len(flat)),
        ("", "flat"): Number(sum(flat)),
        ("", "ended"): Number(sum(entry["ended"] for entry in measurement["tokenizers"])),
    }
    for entry in measurement["tokenizers"]:
        dataset, place = entry["dataset"], f"{entry['normalization']}.{entry['kind']}"
        facts[dataset, f"{place}.bits_per_byte"] = estimate(entry["bits_per_byte"]["total"])
        facts[dataset, f"{place}.bits_per_original_byte"] = estimate(
            entry["bits_per_original_byte"]["total"]
        )
        facts[dataset, f"{place}.spelling"] = estimate(entry["bits_per_byte"]["spelling"])
        facts[dataset, f"{place}.vocabulary"] = Number(entry["vocabulary"])
        facts[dataset, f"{place}.tokens_per_byte"] = Number(entry["fertility"]["per_byte"])
        facts[dataset, f"{place}.unknown"] = Number(entry["unknown"]["bytes"])
        facts[dataset, f"{place}.round_trip"] = Number(entry["round_trip"])
        facts[dataset, f"{place}.fall"] = percent(entry["fall"])
        for key in ("learning_rate", "best_step"):
            chosen = [choice[key] for choice in entry["choices"]]
            facts[dataset, f"{place}.{key}"] = Number(statistics.mean(chosen))
    for entry in measurement["differences"]:
        dataset, place = entry["dataset"], f"{entry['normalization']}.{entry['kind']}"
        facts[dataset, f"{place}.against_bpe"] = estimate(entry["bits_per_byte"])
    for entry in measurement["normalizations"]:
        facts[entry["dataset"], f"NFKC.{entry['kind']}.change"] = estimate(
            entry["bits_per_original_byte"]
        )
    return facts


WORDS = {
    "bits_per_original_byte": "bits per byte of the original",
    "against_bpe": "bits per byte, difference to BPE",
    "trainings": "trainings",
    "flat": "trainings whose validation bits fell by less than 1 % in their last third",
    "ended": "trainings that ended because validation bits fell no more",
    "fall": "fall of validation bits in the last third (%)",
    "learning_rate": "chosen learning rate",
    "best_step": "chosen number of steps",
    "change": "change by normalization (bits per byte of the original)",
}
QUANTITIES = Quantities(words=WORDS)
FIGURE = Exhibit(
    "D3 tokenizers",
    ("tokenizers",),
    height=3.0,
    caption="Bits per byte by tokenizer, data set and Unicode form, how much those of "
    "validation documents still fell in the last third of the training (dashed: flat), and "
    "fertility.",
    alt="Points, a row for each kind of tokenizer: bits per byte, how much they still fell, "
    "tokens per character and size of the vocabulary, with open marks after normalization.",
)
