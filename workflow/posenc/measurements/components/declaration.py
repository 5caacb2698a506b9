"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Confidence, Draws, Length, Samples, Section, Seed, Width
from posenc.measurements.declaration import ACTIVATIONS, CELL, Measurement


class Components(Section):
    """Principal and independent components of hidden states, and their position (C4)."""

    tokens: Annotated[Draws, Field(ge=100)] = 6000
    """Random tokens of the evaluation documents."""
    components: Annotated[Width, Field(ge=2)] = 12
    """How many leading components are kept."""
    harmonics: Length = 4
    """Cosines and sines of position that the components are correlated with."""
    bootstrap_samples: Samples = 500
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "components", Components, of=CELL, reads=(ACTIVATIONS,), catalogue=("C4",),
    uses=("scipy", "python-picard"), schema=2,
)  # fmt: skip
