"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Count, Draws, Samples, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, CELL, WEIGHTS, Measurement


class HardAttention(Section):
    """Soft and hard read-outs of real attention patterns, and the gradient's variance (E1, E2)."""

    queries: Annotated[Draws, Field(ge=10)] = 64
    """Random tokens that see at least two keys, the same for all heads and conditions."""
    heads: Draws = 8
    """Random heads of a model, spread over its layers as evenly as possible."""
    samples: Annotated[list[Count], Field(min_length=1)] = [1, 4, 16, 64]
    """Numbers of samples of the gradient's estimate, rising."""
    repeats: Annotated[Count, Field(ge=10)] = 100
    """Estimates of each gradient, over which the variance is taken."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed

    @model_validator(mode="after")
    def _check_samples(self) -> HardAttention:
        if self.samples != sorted(set(self.samples)):
            raise ValueError(f"samples {self.samples} must rise")
        return self


MEASUREMENT = Measurement(
    "hard_attention", HardAttention, of=CELL, reads=(ACTIVATIONS, WEIGHTS),
    catalogue=("E1", "E2"), uses=("scipy",),
    needs=(Need.MAPS, Need.NORM_PATH, Need.BLOCKS),
)  # fmt: skip
