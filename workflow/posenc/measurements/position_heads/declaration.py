"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Count, Length, Section, Seed
from posenc.measurements.declaration import MATRICES, MODEL, WEIGHTS, Measurement


class PositionHeads(Section):
    """What heads make of positions alone: where they look, how much is a mask (C3, C6)."""

    rows: Annotated[Length, Field(ge=16)] = 512
    """How many positions, from the first one on, are measured."""
    offsets: Annotated[Length, Field(ge=2)] = 10
    """Mean offsets are of the attention from -offsets to +offsets."""
    near: Length = 2
    """Heads whose mean offset is at most so many tokens are counted."""
    null_draws: Count = 5
    """Tables without order, of each kind, that the same heads are measured with."""
    seed: Seed
    """Of those tables."""


MEASUREMENT = Measurement(
    "position_heads", PositionHeads, of=MODEL, reads=(WEIGHTS, MATRICES), catalogue=("C3", "C6"),
    schema=3,
    needs=(Need.TABLE, Need.MAPS, Need.NORM_PATH),
)  # fmt: skip
