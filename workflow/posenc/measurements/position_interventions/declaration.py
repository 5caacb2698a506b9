"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, Length, Samples, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement
from posenc.measurements.filtered_loss.declaration import FEWEST

SHARED = 4
"""Documents that reach a position at least, where means are estimated; positions beyond are cut."""


class PositionInterventions(Section):
    """The mean part of position removed from, and injected into, each layer's input (C5)."""

    documents: Annotated[Documents, Field(ge=SHARED)] = 24
    """Random documents that are measured; as many others give the means. Few, since a
    layer takes a dozen runs."""
    tokens: Annotated[Length, Field(ge=FEWEST)] = 96
    """Documents are cut to this many tokens."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "position_interventions", PositionInterventions, of=CELL, reads=(TOKENS, WEIGHTS),
    catalogue=("C5",), uses=("torch", "transformers"), subjects="examined",
    needs=(Need.TABLE, Need.BLOCKS),
)  # fmt: skip
