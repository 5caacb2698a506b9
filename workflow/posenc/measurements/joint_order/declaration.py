"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, Length, Name, Samples, Section, Seed
from posenc.measurements.declaration import CELL, INTACT, MASKS, TOKENS, WEIGHTS, Measurement


class JointOrder(Section):
    """The joint distribution of two places, and its order (F1, F4)."""

    documents: Annotated[Documents, Field(ge=2)] = 8
    """At most so many are read, drawn from those of six tokens or more."""
    tokens: Length = 8
    """What is read of a document at most: its first tokens, and no more than half of them."""
    candidates: Annotated[Length, Field(ge=2)] = 10
    """Tokens at either place: those that the intact model finds likeliest at one of both."""
    conditions: Annotated[list[Name], Field(min_length=1)] = [
        "intact",
        "zero",
        "zero_closed",
        "placebo_heads",
    ]
    """Of those that the study evaluates the model under."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed

    @field_validator("conditions")
    @classmethod
    def _check_conditions(cls, conditions: list[str]) -> list[str]:
        if INTACT not in conditions:
            raise ValueError(f"{INTACT} is not among them, which the others are compared with")
        return conditions


MEASUREMENT = Measurement(
    "joint_order", JointOrder, of=CELL, reads=(TOKENS, WEIGHTS, MASKS), catalogue=("F1", "F4"),
    uses=("torch", "transformers"), subjects="models",
    needs=(Need.LOSS, Need.REMOVABLE),
)  # fmt: skip
