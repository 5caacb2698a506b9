"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Count, Documents, Index, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement

FEWEST = 2
"""Tokens of a document at least: the second is predicted."""


class UnrotatedHeads(Section):
    """What taking the rotation from single heads, layers and keys costs (F5)."""

    documents: Annotated[Documents, Field(ge=4)] = 16
    """Random documents; heads are ranked on half of them."""
    tokens: Annotated[Length, Field(ge=FEWEST)] = 128
    """Documents are cut to this many tokens."""
    keys: list[Index] = [0, 1, 4, 16]
    """Places of the keys whose pairs lose rotation, in all heads: 0 for a document's first."""
    counts: list[Count] = [9, 27, 81]
    """How many heads lose rotation together, and how many keep it alone; of
    SmolLM2's 270, 27 are a tenth."""
    draws: Count = 3
    """Sets of random heads for each number."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "unrotated_heads", UnrotatedHeads, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("F5",),
    uses=("scipy", "torch", "transformers"), subjects="examined",
    needs=(Need.ROTATION, Need.TURNS, Need.PATTERNS, Need.BLOCKS),
)  # fmt: skip
