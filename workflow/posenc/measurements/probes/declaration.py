"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Confidence, Count, Draws, Folds, Samples, Section, Seed, Width
from posenc.measurements.declaration import ACTIVATIONS, CELL, Measurement


class Probes(Section):
    """Position read from hidden states: ridge and a two-layer ReLU probe by layer (B4)."""

    tokens: Annotated[Draws, Field(ge=100)] = 2000
    """Random tokens of the evaluation documents."""
    pairs: Annotated[Draws, Field(ge=100)] = 1500
    """Random pairs of tokens of one document; a probe tells which of the two comes later."""
    folds: Folds = 3
    """Of the cross-validation; all tokens of a document are in one fold."""
    hidden: Annotated[Width, Field(ge=2)] = 32
    """Units of the ReLU probe."""
    epochs: Count = 16
    """Of the ReLU probe's training."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "probes", Probes, of=CELL, reads=(ACTIVATIONS,), catalogue=("B4",), uses=("scikit-learn",)
)
