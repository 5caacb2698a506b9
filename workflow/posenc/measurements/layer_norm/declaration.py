"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Draws, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement


class LayerNorm(Section):
    """What the normalisations do to position along the residual stream (C5)."""

    tokens: Annotated[Draws, Field(ge=100)] = 8000
    """Tokens of random evaluation documents, which are taken whole: they are sequences here."""
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "layer_norm", LayerNorm, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("C5",), schema=2,
    uses=("scipy", "torch", "transformers"),
    needs=(Need.TABLE, Need.NORM_PATH),
)  # fmt: skip
