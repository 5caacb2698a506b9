"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Entry, Number, Quantities
from posenc.artifacts.printing import Printed, number
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.experiments.tokenizers.result import Comparison

BITS = tuple(f"none.{kind}.bits_per_byte" for kind in ("bpe", "unigram", "whitespace", "character"))
SPOKEN = {"reviews": BITS, "japanese": (*BITS, "NFKC.bpe.change")}
"""By the role of a data set, what documents speak of."""


def tokenizers(result: Comparison) -> dict[tuple[str, str], Entry]:
    """Bits a byte of the original text, and facts: by data set, and by normalisation and kind."""
    flat = [choice.flat for tokenizer in result.tokenizers for choice in tokenizer.choices]
    facts: dict[tuple[str, str], Entry] = {
        ("", "seeds"): Number(len(result.seeds)),
        ("", "trainings"): Number(len(flat)),
        ("", "flat"): Number(sum(flat)),
        ("", "ended"): Number(sum(tokenizer.ended for tokenizer in result.tokenizers)),
    }
    for tokenizer in result.tokenizers:
        choices = tokenizer.choices
        of_tokenizer = {
            "bits_per_byte": number(tokenizer.bits_per_byte.total),
            "bits_per_original_byte": number(tokenizer.bits_per_original_byte.total),
            "spelling": number(tokenizer.bits_per_byte.spelling),
            "vocabulary": Number(tokenizer.vocabulary),
            "tokens_per_byte": Number(tokenizer.fertility.per_byte),
            "unknown": Number(tokenizer.unknown.bytes),
            "round_trip": Number(tokenizer.round_trip),
            "fall": number(tokenizer.fall, Printed(percent=True)),
            "learning_rate": Number(statistics.mean(choice.learning_rate for choice in choices)),
            "best_step": Number(statistics.mean(choice.best_step for choice in choices)),
        }
        for key, entry in of_tokenizer.items():
            facts[tokenizer.dataset, f"{tokenizer.place}.{key}"] = entry
    for difference in result.differences:
        key = f"{difference.place}.against_bpe"
        facts[difference.dataset, key] = number(difference.bits_per_byte)
    for change in result.normalizations:
        facts[change.dataset, f"NFKC.{change.kind}.change"] = number(change.bits_per_original_byte)
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
