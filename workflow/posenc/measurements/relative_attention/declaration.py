"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Length, Section, Seed
from posenc.measurements.declaration import MODEL, WEIGHTS, Measurement


class RelativeAttention(Section):
    """What the weights of a head say about offsets: SVD of W^Q W^K^T (C3)."""

    offsets: Annotated[Length, Field(ge=2)] = 10
    """Scores by offset, key minus query, are kept for -offsets to +offsets."""
    rows: Annotated[Length, Field(ge=16)] = 512
    """How many positions, from the first one on, are measured."""
    seed: Seed
    """Of the random rotations that the null space is turned by."""


MEASUREMENT = Measurement(
    "relative_attention",
    RelativeAttention,
    of=MODEL,
    reads=(WEIGHTS,),
    catalogue=("C3",),
    needs=(Need.TABLE, Need.MAPS, Need.NORM_PATH),
    schema=2,
)
