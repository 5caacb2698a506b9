"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Bands, Confidence, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement

FEWEST = 2
"""Tokens of a document at least: the second is predicted."""


class FilteredLoss(Section):
    """What a model loses when queries and keys keep a band of frequencies, or lose it (C1, C2)."""

    documents: Annotated[Documents, Field(ge=2)] = 8
    """Random documents: few, since each layer alone is filtered too."""
    # The projections of all prefixes are a cube of tokens.
    tokens: Annotated[Length, Field(ge=FEWEST, le=256)] = 64
    """Documents are cut to this many tokens."""
    bands: Bands = [0.0234375, 0.1171875]
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "filtered_loss", FilteredLoss, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("C1", "C2"),
    uses=("scipy", "torch", "transformers"), subjects="examined",
    needs=(Need.BLOCKS,),
)  # fmt: skip
