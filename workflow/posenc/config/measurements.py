"""The ``measurements`` section: parameters of each measurement."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import Section, Seed


class Similarity(Section):
    """Per-token cosine of hidden states between a condition and the intact model (A1, A2)."""

    special_tokens: bool
    """Whether [CLS], [SEP] and the like count as tokens."""
    baseline_pairs: Annotated[int, Field(ge=100)]
    """Random token pairs of the intact model, for the anisotropy baseline of each layer."""
    histogram_bins: Annotated[int, Field(ge=10)]
    """Bins of the histograms over [-1, 1]."""
    bootstrap_samples: Annotated[int, Field(ge=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Perplexity(Section):
    """Corpus perplexity, and its change under a condition, paired by document (D1)."""

    bootstrap_samples: Annotated[int, Field(ge=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Measurements(Section):
    """One entry a measurement."""

    similarity: Similarity
    perplexity: Perplexity
