"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Draws, MixingWeights, Section, Seed, Width
from posenc.measurements.declaration import MODEL, WEIGHTS, Measurement

Dimensions = Annotated[list[Annotated[Width, Field(ge=2)]], Field(min_length=1)]


class EmbeddingSums(Section):
    """Which two token embeddings a sum consists of, by the number of dimensions (B5)."""

    dimensions: Dimensions = [4, 8, 16, 32, 64, 128, 256]
    """Of random projections of the table, rising; the table's own width is measured as well."""
    pairs: Annotated[Draws, Field(ge=10)] = 200
    """Random pairs of two tokens."""
    weights: MixingWeights = [0.5, 0.6, 0.7, 0.8, 0.9]
    """Mixing weights w of w a + (1 - w) b."""
    confidence: Confidence
    seed: Seed

    @model_validator(mode="after")
    def _check_dimensions(self) -> EmbeddingSums:
        if self.dimensions != sorted(set(self.dimensions)):
            raise ValueError(f"dimensions {self.dimensions} must rise")
        return self


MEASUREMENT = Measurement(
    "embedding_sums",
    EmbeddingSums,
    of=MODEL,
    reads=(WEIGHTS,),
    catalogue=("B5",),
    uses=("scipy",),
    needs=(Need.TABLE,),
)
