"""What it finds out about a run."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class OfSequences(Part):
    """Perplexity of single documents: its mean and median over them."""

    mean: float
    median: float


class CorpusPerplexity(OfDocuments):
    """Perplexity under a condition, and its change against the intact model.

    Tokens are those that are scored: all but the first of a document. Changes are paired by
    document.
    """

    vocabulary_size: int
    """The perplexity of a uniform guess."""
    bos: bool
    """Whether a document begins with the end-of-text token."""
    bytes: int
    """Of the scored tokens, in UTF-8."""
    perplexity: Interval
    bits_per_byte: Interval
    nll_per_token: Interval
    """In nats."""
    worse_than_uniform: Interval
    """Share of tokens whose loss is above that of a uniform guess."""
    delta_nll: Interval
    """Loss minus the intact model's, in nats per token."""
    perplexity_ratio: Interval
    """Perplexity over the intact model's."""
    sequence_perplexity: OfSequences
