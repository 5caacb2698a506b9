"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Confidence, Count, Draws, Samples, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, RUN, Measurement


class Similarity(Section):
    """Per-token cosine of hidden states between a condition and the intact model (A1, A2)."""

    special_tokens: bool = True
    """Whether [CLS], [SEP] and the like count as tokens."""
    baseline_pairs: Annotated[Draws, Field(ge=100)] = 20_000
    """Random token pairs of the intact model, for the anisotropy baseline of each layer; and as
    many pairs of different tokens in one document, and of the same token in different documents."""
    histogram_bins: Annotated[Count, Field(ge=10)] = 200
    """Bins of the histograms over [-1, 1]."""
    bootstrap_samples: Samples = 2000
    confidence: Confidence
    sample_tokens: Annotated[Draws, Field(ge=100)] = 4096
    """Random tokens for what compares tokens with each other: centred and standardised cosine,
    linear CKA, retrieval."""
    seed: Seed


MEASUREMENT = Measurement(
    "similarity", Similarity, of=RUN, reads=(ACTIVATIONS,), catalogue=("A1", "A2"), schema=4,
    always=True,
)  # fmt: skip
