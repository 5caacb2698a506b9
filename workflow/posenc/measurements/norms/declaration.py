"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Draws, Folds, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement


class Norms(Section):
    """How much the norms of a token's embeddings tell about its position (A3)."""

    folds: Folds = 5
    """Of the cross-validation."""
    tokens: Annotated[Draws, Field(ge=100)] = 20_000
    """Random tokens of the evaluation documents."""
    seed: Seed


MEASUREMENT = Measurement(
    "norms",
    Norms,
    of=CELL,
    reads=(TOKENS, WEIGHTS),
    catalogue=("A3",),
    uses=("scikit-learn",),
    needs=(Need.TABLE,),
)
