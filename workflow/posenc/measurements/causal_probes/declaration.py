"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import (
    Confidence,
    Documents,
    Draws,
    Folds,
    Length,
    Name,
    Samples,
    Section,
    Seed,
)
from posenc.measurements.declaration import CELL, MASKS, TOKENS, WEIGHTS, Measurement

FEWEST = 100
"""Tokens that a probe is fitted to and tried on, at least."""


class CausalProbes(Section):
    """Position probes under a causal mask, causal windows and no mask (B4)."""

    documents: Documents = 40
    """Of the evaluation, the first so many."""
    tokens: Annotated[Draws, Field(ge=FEWEST)] = 2000
    """Random tokens of them: the same in all variants and layers."""
    windows: Annotated[list[Length], Field(max_length=8)] = [4, 16, 64]
    """Widths in tokens, the token itself included."""
    conditions: list[Name] = [
        "zero_alibi",
        "zero_closed",
        "placebo_heads",
        "zero_fitted",
        "fitted",
    ]
    """Of those that a decoder is evaluated under, the ones whose states are probed too."""
    folds: Folds = 3
    """Of the cross-validation; all tokens of a document are in one fold."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "causal_probes", CausalProbes, of=CELL, reads=(TOKENS, WEIGHTS, MASKS), catalogue=("B4", "A5"),
    uses=("scikit-learn", "torch", "transformers"), subjects="examined", needs=(Need.REMOVABLE,),
)  # fmt: skip
