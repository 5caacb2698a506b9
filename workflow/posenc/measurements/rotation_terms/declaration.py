"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement

SHORTEST = 4
"""Tokens of the shortest documents that are drawn: a few distances beside the first key."""


class RotationTerms(Section):
    """How much of what rotation adds to scores is of first order (F7)."""

    documents: Annotated[Documents, Field(ge=2)] = 12
    """Random documents whose scores are measured; as many others give the means."""
    tokens: Annotated[Length, Field(ge=SHORTEST)] = 128
    """Documents are cut to this many tokens."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "rotation_terms", RotationTerms, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("F7",),
    uses=("torch", "transformers"), subjects="models",
    needs=(Need.ROTATION, Need.TURNS, Need.PATTERNS, Need.PRODUCTS, Need.REMOVABLE),
)  # fmt: skip
