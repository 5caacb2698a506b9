"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, Number, Quantities
from posenc.drawing.exhibit import Exhibit

ESTIMATES = (
    "perplexity", "bits_per_byte", "nll_per_token", "worse_than_uniform", "delta_nll",
    "perplexity_ratio",
)  # fmt: skip
COUNTS = ("documents", "tokens", "bytes", "vocabulary_size")
PERPLEXITY = (*COUNTS, *ESTIMATES, "sequence.mean", "sequence.median")


def perplexity(measurement: Mapping[str, Any]) -> Facts:
    """Perplexity of the corpus and of single documents, and the loss behind it."""
    facts: Facts = {key: Number(measurement[key]) for key in COUNTS}
    facts |= {key: Number(**measurement[key]) for key in ESTIMATES}
    sequences = measurement["sequence_perplexity"].items()
    return facts | {f"sequence.{key}": Number(value) for key, value in sequences}


WORDS = {
    "vocabulary_size": "size of the vocabulary",
    "sequence": "perplexity of single documents",
    "perplexity": "corpus perplexity",
    "perplexity_ratio": "perplexity as a multiple of the intact one",
}
QUANTITIES = Quantities(read=perplexity, names=PERPLEXITY, words=WORDS)
FIGURE = Exhibit(
    "D1 perplexity",
    ("perplexity",),
    height=2.4,
    width=3.3,
    caption="Corpus perplexity by condition, with its interval, on a logarithmic axis. The "
    "upright stroke is the size of the vocabulary, which is the perplexity of a uniform guess.",
    alt="Points with intervals on a logarithmic axis: corpus perplexity of each model, data "
    "set and condition.",
)
