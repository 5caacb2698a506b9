"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.config.base import (
    Count,
    Deviation,
    HeadCount,
    Layers,
    Length,
    Section,
    Seed,
    Width,
    check_heads,
)
from posenc.measurements.declaration import STUDY, Measurement


class RandomCausal(Section):
    """Variance by position in frozen random causal models without positions (B4)."""

    n_layers: Layers = 4
    """Of each random model."""
    d_model: Annotated[Width, Field(ge=8)] = 256
    """Its width."""
    n_heads: HeadCount = 4
    """Attention heads of a layer."""
    tokens: Annotated[Length, Field(ge=16)] = 128
    """Length of the random sequences."""
    sequences: Annotated[Count, Field(ge=2)] = 8
    """Random sequences that each model reads."""
    models: Annotated[Count, Field(ge=2)] = 5
    """Random models; results are their mean and standard deviation."""
    deviation: Deviation = 0.02
    """Standard deviation of the initial weights."""
    seed: Seed

    @model_validator(mode="after")
    def _check_heads(self) -> RandomCausal:
        check_heads(self.d_model, self.n_heads)
        return self


MEASUREMENT = Measurement(
    "random_causal", RandomCausal, of=STUDY, reads=(), catalogue=("B4",),
    uses=("torch", "transformers"),
)  # fmt: skip
