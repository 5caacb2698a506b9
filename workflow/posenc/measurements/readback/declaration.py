"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Draws, Section, Seed
from posenc.measurements.declaration import MODEL, WEIGHTS, Measurement


class Readback(Section):
    """Whether token and position can be read back from their sum (B2)."""

    tokens: Annotated[Draws, Field(ge=10)] = 200
    """Random (token, position) pairs that are decoded at every level of noise, against all pairs
    there are."""
    bounded: Annotated[Draws, Field(ge=10)] = 300
    """Random pairs that bound the share of failures, at the middle level of noise."""
    noise: list[Annotated[float, Field(ge=0, le=1000)]] = [0.0, 0.1, 0.2, 0.4, 0.8, 1.6]
    """Standard deviations of the added noise, in units of the root mean square of the vectors'
    entries."""
    variance: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Principal angles are between the leading directions with this share of the variance."""
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "readback",
    Readback,
    of=MODEL,
    reads=(WEIGHTS,),
    catalogue=("B2",),
    uses=("scipy",),
    needs=(Need.TABLE,),
)
