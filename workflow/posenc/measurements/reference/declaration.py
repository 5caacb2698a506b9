"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Confidence, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, Measurement


class Reference(Section):
    """Perplexity of models without a network: uniform, unigram, Kneser-Ney (D2)."""

    orders: list[Annotated[int, Field(ge=2, le=3)]] = [2, 3]
    """Of the Kneser-Ney models: 2 for bigrams, 3 for trigrams."""
    bootstrap_samples: Samples = 2000
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "reference", Reference, of=CELL, reads=(TOKENS, "corpus"), catalogue=("D2",), subjects="models"
)
