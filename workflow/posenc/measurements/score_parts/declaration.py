"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Count, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement

SHORTEST = 4
"""Tokens of the shortest documents that are drawn: a few distances beside the first key."""


class ScoreParts(Section):
    """How much of position is a mask: the closed form by head, and parts of scores (F2, F3)."""

    documents: Annotated[Documents, Field(ge=2)] = 12
    """Random documents whose scores are measured; as many others give the means."""
    tokens: Annotated[Length, Field(ge=SHORTEST)] = 128
    """Documents are cut to this many tokens."""
    placebo_draws: Count = 5
    """Masks of other heads, of each kind, that stand in for each head's own."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "score_parts", ScoreParts, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("F2", "F3"), schema=2,
    uses=("torch", "transformers"), subjects="models",
    needs=(Need.PATTERNS, Need.PRODUCTS, Need.REMOVABLE, Need.TURNS),
)  # fmt: skip
