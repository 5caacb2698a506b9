"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Count, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement

FEWEST = 3
"""Keys that a query sees at least: the first, and two others to choose from."""


class EffectiveKeys(Section):
    """How many keys attention reads, and what reading only a few costs (E1, E2)."""

    documents: Annotated[Documents, Field(ge=2)] = 8
    """Random documents."""
    tokens: Annotated[Length, Field(ge=FEWEST)] = 96
    """Documents are cut to this many tokens."""
    keys: Annotated[list[Count], Field(min_length=1)] = [1, 4, 16]
    """How many keys a query keeps at most: one measurement for each number."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "effective_keys", EffectiveKeys, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("E1", "E2"),
    uses=("torch", "transformers", "scipy"), subjects="models", schema=2,
    needs=(Need.PATTERNS,),
)  # fmt: skip
