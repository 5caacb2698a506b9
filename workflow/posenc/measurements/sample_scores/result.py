"""What it finds out about a model."""

from __future__ import annotations

from posenc.artifacts.results import Part, Result


class Scores(Part):
    """Scores of the sentence under one condition."""

    condition: str
    layers: list[list[str]]
    """[n_layers, n_heads]: scores in nats before mask and softmax, query by query, of the keys that
    each sees, with spaces between."""


class Sentence(Result):
    """One sentence, as its one document."""

    documents: int
    tokens: int
    is_causal: bool
    """Whether a query sees the keys up to its own place alone."""
    n_layers: int
    n_heads: int
    pieces: list[str]
    """[tokens]: what each covers of the text, or its name where the tokenizer adds it."""
    conditions: list[Scores]
