"""What it finds out about a model's text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, NotMeasured, OfDocuments, Part


class Level(Part):
    """How well a model without a network predicts the scored tokens."""

    level: str
    """``uniform``, ``unigram``, ``Kneser-Ney bigram`` or ``Kneser-Ney trigram``."""
    perplexity: Interval
    nll_per_token: Interval
    """In nats."""
    bits_per_byte: Interval

    @property
    def word(self) -> str:
        """What keys call it: the last word of its name."""
        return self.level.split()[-1]


class ReferenceLevels(OfDocuments):
    """Perplexity of models without a network, on the tokens that a decoder is scored on."""

    reason: str | None = None
    """Why there is only the uniform level; None where there are all."""
    vocabulary_size: int
    """Tokens that the uniform level gives the same probability."""
    levels: list[Level]


class NoLevels(NotMeasured):
    """Why a model has no levels: tables find an empty list."""

    levels: list[Level] = []
