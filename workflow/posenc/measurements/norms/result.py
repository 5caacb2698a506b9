"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Part, Result


class Predicted(Part):
    """R² of position from the norm alone, cross-validated.

    0 for a norm that is constant; below 0 for one that misleads.
    """

    linear: float
    """By a straight line."""
    flexible: float
    """By regression trees, which fit any function of the norm."""


class Explained(Part):
    """R² of position from the norm of each of three vectors."""

    position_embeddings: Predicted
    """Of positions in use, each once."""
    token_embeddings: Predicted
    """Of tokens of the text."""
    sum: Predicted
    """Of the same tokens, with the embedding of their position."""


class NormSpread(Part):
    """Norms of embeddings: their mean and standard deviation."""

    mean: float
    sd: float


class NormSpreads(Part):
    """Norms of both tables."""

    position_embeddings: NormSpread
    """Over positions in use."""
    token_embeddings: NormSpread
    """Over tokens of the text."""


class EmbeddingNorms(Result):
    """What norms of embeddings tell about position."""

    documents: int
    tokens: int
    """Drawn at random, none of them the first of a document."""
    positions: int
    """In use: as many as the longest document has tokens."""
    r2: Explained
    norm: NormSpreads
    curve: list[float]
    """[positions]: norm of each position's embedding."""
