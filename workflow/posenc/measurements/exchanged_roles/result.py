"""What it finds out about a model."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class Cosines(Part):
    """Of a sentence's vector with others', under one condition: means over sentences."""

    condition: str
    exchanged: Interval
    """With that of the same sentence with its names exchanged."""
    paraphrase: Interval
    """With that of a paraphrase."""
    unrelated: Interval
    """With that of an unrelated sentence."""
    nearer: float
    """Share of sentences that are nearer to the first than to the second."""


class Language(Part):
    """Sentences of one language."""

    language: str
    pairs: int
    """Sentences whose exchanged form is the same tokens in another order."""
    left_out: int
    """Sentences whose exchanged form is not."""
    status: str
    """``measured``, or ``not run`` with fewer than two pairs."""
    reason: str | None
    """Why it is not run."""
    conditions: list[Cosines]


class Comparisons(OfDocuments):
    """Sentences with exchanged names, by language; ``documents`` are the sentences."""

    languages: list[Language]
