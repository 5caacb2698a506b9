"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, HeadCount, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, MASKS, TOKENS, WEIGHTS, Measurement


class Induction(Section):
    """Copying of repeated random tokens, and the heads that do it (F1, F4)."""

    sequences: Annotated[Documents, Field(ge=4)] = 24
    """Half of them choose heads; the attention of those is measured on the others."""
    tokens: Annotated[Length, Field(ge=4)] = 32
    """Random tokens of a sequence, before it is repeated."""
    heads: HeadCount = 4
    """How many heads of each kind are chosen."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "induction", Induction, of=CELL, reads=(TOKENS, WEIGHTS, MASKS), catalogue=("F1", "F4"),
    uses=("torch", "transformers"), subjects="models",
    needs=(Need.LOSS, Need.PATTERNS),
)  # fmt: skip
