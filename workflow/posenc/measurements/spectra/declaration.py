"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Bands, Confidence, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, CELL, Measurement


class Spectra(Section):
    """Hidden states, queries and keys as signals along the sequence (C1, C2)."""

    documents: Annotated[Documents, Field(ge=2)] | None = 500
    """How many of the evaluation documents; null for all."""
    window: Annotated[Length, Field(ge=8)] = 64
    """Tokens of a window; an incomplete one at the end of a document is left out."""
    bands: Bands = [0.0234375, 0.1171875]
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "spectra", Spectra, of=CELL, reads=(ACTIVATIONS,), catalogue=("C1", "C2"), uses=("scipy",)
)
