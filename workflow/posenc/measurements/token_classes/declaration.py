"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, Length, Name, Samples, Section, Seed
from posenc.measurements.declaration import CELL, DATASETS, MASKS, TOKENS, WEIGHTS, Measurement


class TokenClasses(Section):
    """Loss by class of token (A1, F1)."""

    every: Documents = 4
    """One document of so many is read, which keeps a study's shares of its data sets."""
    tokens: Annotated[Length, Field(ge=4)] = 128
    """What is read of a document at most: its first tokens."""
    conditions: Annotated[list[Name], Field(min_length=2)] = [
        "intact",
        "zero",
        "zero_closed",
        "placebo_heads",
        "zero_fitted",
    ]
    """Of those that the study evaluates the model under; ``intact`` first."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "token_classes", TokenClasses, of=CELL, reads=(DATASETS, TOKENS, WEIGHTS, MASKS),
    catalogue=("A1", "F1"), uses=("torch", "transformers", "scikit-learn"), subjects="models",
    needs=(Need.LOSS, Need.REMOVABLE),
)  # fmt: skip
