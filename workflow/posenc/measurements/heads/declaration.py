"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Clusters, Confidence, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, CELL, Measurement


class Heads(Section):
    """Where heads look: attention mass by offset, and types of heads (C6)."""

    documents: Annotated[Documents, Field(ge=2)] | None = 500
    """How many of the evaluation documents; null for all."""
    offsets: Annotated[Length, Field(ge=2)] = 10
    """Mass is kept for key minus query from -offsets to +offsets, and of all beyond."""
    types: Clusters = 5
    """Clusters of k-means over the profiles of all heads of a model."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "heads", Heads, of=CELL, reads=(ACTIVATIONS,), catalogue=("C6",), uses=("scikit-learn",)
)
