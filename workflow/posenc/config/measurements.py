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
    sample_tokens: Annotated[int, Field(ge=100)]
    """Random tokens for what compares tokens with each other: centred and standardised cosine,
    linear CKA, retrieval."""
    seed: Seed


class Perplexity(Section):
    """Corpus perplexity, and its change under a condition, paired by document (D1)."""

    bootstrap_samples: Annotated[int, Field(ge=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Conditions(Section):
    """All conditions of a study on its first documents (A1, A3, A4, A5)."""

    documents: Annotated[int, Field(ge=2)] | None
    """How many of the evaluation documents; null for all."""
    special_tokens: bool
    """Whether [CLS], [SEP] and the like count as tokens."""
    batch_tokens: Annotated[int, Field(ge=1)]
    """Tokens of one forward pass, those of all conditions that share it included."""
    calibration_share: Annotated[float, Field(gt=0, lt=1)]
    """Share of the calibration documents that masks are fitted on; the rest chooses."""
    bootstrap_samples: Annotated[int, Field(ge=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Norms(Section):
    """How much of a token's position its embeddings' norms tell (A3)."""

    folds: Annotated[int, Field(ge=2)]
    tokens: Annotated[int, Field(ge=100)]
    """Random tokens of the evaluation documents."""
    seed: Seed


class Reference(Section):
    """Perplexity of models without a network: uniform, unigram, Kneser-Ney (D2)."""

    orders: list[Annotated[int, Field(ge=2, le=3)]]
    bootstrap_samples: Annotated[int, Field(ge=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


RUNS = ("similarity", "perplexity")
"""Those with a file a run; the others have one for a model and a data set."""


class Measurements(Section):
    """One entry a measurement."""

    similarity: Similarity
    perplexity: Perplexity
    conditions: Conditions
    norms: Norms
    reference: Reference
