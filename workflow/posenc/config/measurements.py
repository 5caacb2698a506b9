"""The ``measurements`` section: parameters of each measurement."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.config.base import (
    Clusters,
    Count,
    Deviation,
    Documents,
    Draws,
    Folds,
    HeadCount,
    Layers,
    Length,
    Samples,
    Section,
    Seed,
    Width,
    check_heads,
)


class Similarity(Section):
    """Per-token cosine of hidden states between a condition and the intact model (A1, A2)."""

    special_tokens: bool
    """Whether [CLS], [SEP] and the like count as tokens."""
    baseline_pairs: Annotated[Draws, Field(ge=100)]
    """Random token pairs of the intact model, for the anisotropy baseline of each layer."""
    histogram_bins: Annotated[Count, Field(ge=10)]
    """Bins of the histograms over [-1, 1]."""
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    sample_tokens: Annotated[Draws, Field(ge=100)]
    """Random tokens for what compares tokens with each other: centred and standardised cosine,
    linear CKA, retrieval."""
    seed: Seed


class Perplexity(Section):
    """Corpus perplexity, and its change under a condition, paired by document (D1)."""

    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Conditions(Section):
    """All conditions of a study on its first documents (A1, A3, A4, A5)."""

    documents: Annotated[Documents, Field(ge=2)] | None
    """How many of the evaluation documents; null for all."""
    special_tokens: bool
    """Whether [CLS], [SEP] and the like count as tokens."""
    batch_tokens: Draws
    """Tokens of one forward pass, those of all conditions that share it included."""
    calibration_share: Annotated[float, Field(gt=0, lt=1)]
    """Share of the calibration documents that masks are fitted on; the rest chooses."""
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Norms(Section):
    """How much of a token's position its embeddings' norms tell (A3)."""

    folds: Folds
    tokens: Annotated[Draws, Field(ge=100)]
    """Random tokens of the evaluation documents."""
    seed: Seed


class Reference(Section):
    """Perplexity of models without a network: uniform, unigram, Kneser-Ney (D2)."""

    orders: list[Annotated[int, Field(ge=2, le=3)]]
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class PositionEmbeddings(Section):
    """What position embeddings are: their geometry, and what can be read off them (B1, B3, C1)."""

    rows: Annotated[Length, Field(ge=16)]
    """How many of the first positions are taken in."""
    folds: Folds
    """Of the cross-validation, over shuffled positions or pairs."""
    repeats: Annotated[Count, Field(ge=2)]
    """Cross-validations with other seeds; results are their mean and standard deviation."""
    pairs: Annotated[Draws, Field(ge=100)]
    """Random pairs of positions, of which the regression tells which comes later."""
    seed: Seed


class Readback(Section):
    """Whether token and position can be read back from their sum (B2)."""

    tokens: Annotated[Draws, Field(ge=10)]
    """Random (token, position) pairs that are decoded, against all pairs there are."""
    noise: list[Annotated[float, Field(ge=0, le=1000)]]
    """Standard deviations of the added noise, in units of the root mean square of the vectors'
    entries."""
    variance: Annotated[float, Field(gt=0, lt=1)]
    """Principal angles are between the leading directions with this share of the variance."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class RelativeAttention(Section):
    """What the weights of a head say about offsets: SVD of W^Q W^K^T (C3)."""

    offsets: Annotated[Length, Field(ge=2)]
    """Scores by offset, key minus query, are kept for -offsets to +offsets."""
    rows: Annotated[Length, Field(ge=16)]
    """How many of the first positions are taken in."""
    seed: Seed
    """Of the random rotations that the null space is turned by."""


class Heads(Section):
    """Where heads look: attention mass by offset, and types of heads (C6)."""

    documents: Annotated[Documents, Field(ge=2)] | None
    """How many of the evaluation documents; null for all."""
    offsets: Annotated[Length, Field(ge=2)]
    """Mass is kept for key minus query from -offsets to +offsets, and of all beyond."""
    types: Clusters
    """Clusters of k-means over the profiles of all heads of a model."""
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Lags(Section):
    """Offsets that weights predict against offsets where the attention is (C3, C6)."""

    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Spectra(Section):
    """Hidden states, queries and keys as signals along the sequence (C1, C2)."""

    documents: Annotated[Documents, Field(ge=2)] | None
    """How many of the evaluation documents; null for all."""
    window: Annotated[Length, Field(ge=8)]
    """Tokens of a window; what is left over at the end of a document is not taken in."""
    bands: Annotated[list[Annotated[float, Field(gt=0, lt=0.5)]], Field(min_length=1)]
    """Limits between the bands, in cycles a token, rising."""
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed

    @model_validator(mode="after")
    def _check_bands(self) -> Spectra:
        if self.bands != sorted(set(self.bands)):
            raise ValueError(f"bands {self.bands} must rise")
        return self


class Components(Section):
    """Principal and independent components of hidden states, and their position (C4)."""

    tokens: Annotated[Draws, Field(ge=100)]
    """Random tokens of the evaluation documents."""
    components: Annotated[Width, Field(ge=2)]
    """How many leading ones."""
    harmonics: Length
    """Cosines and sines of position that the components are correlated with."""
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class LayerNorm(Section):
    """What layer normalisation does to the position that was added (C5)."""

    tokens: Annotated[Draws, Field(ge=100)]
    """Tokens of random evaluation documents, which are taken whole: they are sequences here."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class Probes(Section):
    """Position read from hidden states: ridge and a two-layer ReLU probe by layer (B4)."""

    tokens: Annotated[Draws, Field(ge=100)]
    """Random tokens of the evaluation documents."""
    pairs: Annotated[Draws, Field(ge=100)]
    """Random pairs of tokens of one document, of which a probe tells which comes later."""
    folds: Folds
    """Of the cross-validation; all tokens of a document are in one fold."""
    hidden: Annotated[Width, Field(ge=2)]
    """Units of the ReLU probe."""
    epochs: Count
    """Of the ReLU probe's training."""
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed


class RandomCausal(Section):
    """Variance by position in frozen random causal models without positions (B4)."""

    n_layers: Layers
    d_model: Annotated[Width, Field(ge=8)]
    n_heads: HeadCount
    tokens: Annotated[Length, Field(ge=16)]
    """Length of the random sequences."""
    sequences: Annotated[Count, Field(ge=2)]
    models: Annotated[Count, Field(ge=2)]
    """Random models; results are their mean and standard deviation."""
    deviation: Deviation
    """Standard deviation of the initial weights."""
    seed: Seed

    @model_validator(mode="after")
    def _check_heads(self) -> RandomCausal:
        check_heads(self.d_model, self.n_heads)
        return self


class EmbeddingSums(Section):
    """Which two token embeddings a sum consists of, by the number of dimensions (B5)."""

    dimensions: Annotated[list[Annotated[Width, Field(ge=2)]], Field(min_length=1)]
    """Of random projections of the table, rising; the table's own width comes beside them."""
    pairs: Annotated[Draws, Field(ge=10)]
    weights: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1)]
    """Mixing weights w of w a + (1 - w) b."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed

    @model_validator(mode="after")
    def _check_dimensions(self) -> EmbeddingSums:
        if self.dimensions != sorted(set(self.dimensions)):
            raise ValueError(f"dimensions {self.dimensions} must rise")
        return self


class Scaling(Section):
    """Attention scores with and without the division by the square root of d_k (D4)."""

    dimensions: Annotated[list[Width], Field(min_length=1)]
    """Values of d_k."""
    keys: Annotated[Length, Field(ge=2)]
    """Keys that a query attends to."""
    queries: Annotated[Draws, Field(ge=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed

    @model_validator(mode="after")
    def _check_dimensions(self) -> Scaling:
        if self.dimensions != sorted(set(self.dimensions)):
            raise ValueError(f"dimensions {self.dimensions} must rise")
        return self


class HardAttention(Section):
    """Soft and hard read-outs of real attention patterns, and the gradient's variance (E1, E2)."""

    queries: Annotated[Draws, Field(ge=10)]
    """Random tokens that see two keys at least, the same for all heads and conditions."""
    heads: Draws
    """Random heads of a model, as even over its layers as can be."""
    samples: Annotated[list[Count], Field(min_length=1)]
    """Numbers of samples of the gradient's estimate, rising."""
    repeats: Annotated[Count, Field(ge=10)]
    """Estimates of a gradient, of which the variance is taken."""
    bootstrap_samples: Samples
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed

    @model_validator(mode="after")
    def _check_samples(self) -> HardAttention:
        if self.samples != sorted(set(self.samples)):
            raise ValueError(f"samples {self.samples} must rise")
        return self


RUNS = ("similarity", "perplexity")
"""Of runs, with a file a run."""
BUNDLED = ("probes", "spectra", "components", "heads", "hard_attention")
"""Of runs, with a file for a model and a data set, which holds those of all conditions: with
hundreds of runs, Snakemake's and DVC's own time grows with the number of files."""


class Measurements(Section):
    """One entry a measurement."""

    similarity: Similarity
    perplexity: Perplexity
    conditions: Conditions
    norms: Norms
    reference: Reference
    position_embeddings: PositionEmbeddings
    readback: Readback
    probes: Probes
    random_causal: RandomCausal
    spectra: Spectra
    components: Components
    layer_norm: LayerNorm
    relative_attention: RelativeAttention
    heads: Heads
    lags: Lags
    embedding_sums: EmbeddingSums
    scaling: Scaling
    hard_attention: HardAttention


ALWAYS = (*RUNS, "conditions")
"""Measurements that every study has."""
OPTIONAL = tuple(name for name in Measurements.model_fields if name not in ALWAYS)
"""The others, of which a study may choose."""
