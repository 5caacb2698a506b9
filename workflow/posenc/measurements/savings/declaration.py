"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Count, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement

FEWEST = 2
"""Tokens of a passage at least: one alone attends to itself, whatever its position."""


class Savings(Section):
    """What a model without positions would save: parameters, and caches that can be shared."""

    documents: Annotated[Documents, Field(ge=2)] = 8
    """Random documents, whose beginnings are the passages."""
    tokens: Annotated[Length, Field(ge=FEWEST)] = 48
    """Passages are cut to this many tokens."""
    offsets: Annotated[list[Count], Field(min_length=1)] = [1, 16, 64]
    """Where a passage comes again: positions of its first token, rising."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed

    @model_validator(mode="after")
    def _check_offsets(self) -> Savings:
        if self.offsets != sorted(set(self.offsets)):
            raise ValueError(f"offsets {self.offsets} must rise")
        return self


MEASUREMENT = Measurement(
    "savings", Savings, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("A1", "F1"),
    uses=("torch", "transformers"), subjects="models",
    needs=(Need.PACKED,),
)  # fmt: skip
