"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.conditions.masks import FittedMask
from posenc.config.base import (
    Confidence,
    Count,
    Documents,
    Draws,
    Line,
    Samples,
    Section,
    Seed,
    SeedNumber,
)
from posenc.measurements.declaration import CELL, DATASETS, TOKENIZER, TOKENS, WEIGHTS, Measurement


class Refits(Section):
    """A mask and its controls, fitted to several calibration texts with several seeds (A5)."""

    split: Line = "unsup"
    """Of the study's calibration data set, what is fitted to: none that is evaluated."""
    draws: Annotated[Count, Field(ge=2)] = 3
    """Random texts that share no document."""
    fitting: Documents = 150
    """Documents of a text that the mask is fitted to."""
    choosing: Documents = 50
    """Further documents of it, which choose the step whose parameters are kept."""
    seeds: Annotated[list[SeedNumber], Field(min_length=2)] = [0, 1]
    """Of fits to each text: the order of its documents, and the placebo's hashes."""
    mask: FittedMask = FittedMask(method="fitted", position="zero", seed=0)
    """What is fitted to the model without positions; its seed is one of ``seeds``."""
    evaluated: Annotated[Documents, Field(ge=2)] = 250
    """At most so many documents of each data set, the first ones."""
    batch_tokens: Draws = 32_768
    """Tokens of one forward pass."""
    bootstrap_samples: Samples = 2000
    confidence: Confidence
    seed: Seed
    """Of the draws, and of the bootstrap."""

    @model_validator(mode="after")
    def _check(self) -> Refits:
        given = (self.mask.position, self.mask.distances, self.mask.begin)
        if given != ("zero", "offsets", None) or self.mask.learn_position or not self.mask.terms:
            raise ValueError(
                "mask must have position: zero, learn_position: false, some terms, and neither "
                "distances nor begin: its controls are made of it"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {self.seeds} names one twice")
        return self


MEASUREMENT = Measurement(
    "refits", Refits, of=CELL, reads=(DATASETS, TOKENIZER, TOKENS, WEIGHTS), catalogue=("A5",),
    uses=("torch", "transformers", "tokenizers"), subjects="refitted",
)  # fmt: skip
