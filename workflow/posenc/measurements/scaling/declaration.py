"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.config.base import Confidence, Draws, Length, Section, Seed, Width
from posenc.measurements.declaration import STUDY, Measurement


class Scaling(Section):
    """Attention scores with and without the division by the square root of d_k (D4)."""

    dimensions: Annotated[list[Width], Field(min_length=1)] = [1, 4, 16, 64, 256, 512]
    """Values of d_k."""
    keys: Annotated[Length, Field(ge=2)] = 32
    """Keys that a query attends to."""
    queries: Annotated[Draws, Field(ge=100)] = 2000
    """Random queries."""
    confidence: Confidence
    seed: Seed

    @model_validator(mode="after")
    def _check_dimensions(self) -> Scaling:
        if self.dimensions != sorted(set(self.dimensions)):
            raise ValueError(f"dimensions {self.dimensions} must rise")
        return self


MEASUREMENT = Measurement(
    "scaling", Scaling, of=STUDY, reads=(), catalogue=("D4",), uses=("scipy",)
)
