"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, DATASETS, MASKS, TOKENS, WEIGHTS, Measurement


class Swaps(Section):
    """Preference for a text over itself with two words swapped (F1, F4)."""

    every: Documents = 8
    """One document of so many is read, which keeps a study's shares of its data sets."""
    tokens: Annotated[Length, Field(ge=4)] = 16
    """What is read of a document at most: its first tokens."""
    swaps: Documents = 1
    """Forms of a document at each distance, of one swap each; fewer where it has fewer places."""
    distances: Annotated[list[Length], Field(min_length=1)] = [1, 4]
    """In words, of the two that are swapped: 1 for neighbours."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "swaps", Swaps, of=CELL, reads=(DATASETS, TOKENS, WEIGHTS, MASKS), catalogue=("F1", "F4"),
    uses=("torch", "transformers"), subjects="models", needs=(Need.LOSS,),
)  # fmt: skip
