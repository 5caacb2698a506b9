"""Sections of the figures that have more parameters than a width and a height."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posenc.config.base import Seed, Slope
from posenc.drawing.section import Figure

LINEAR = ("hf_le420", "hf_finfo", "hf_sdpa_cpu", "hf_bool")
"""What a linear mask has meant in GPT-2, one default of the library after the other."""


class Histogram(Figure):
    """Parameters of the cosine histogram."""

    layer: Literal["embedding", "last"] = "last"
    """Which hidden state is shown."""
    logarithmic: bool = False
    """Logarithmic density axis."""


class MaskSemantics(Figure):
    """Parameters of the picture of the semantics of a mask."""

    tokens: Annotated[int, Field(ge=3, le=64)] = 12
    """Of the document that is shown."""
    floor: Annotated[float, Field(ge=0.01, le=1)] = 0.1
    """Of the linear profile."""
    slope: Slope = 0.5
    """Of ALiBi, which is shown beside it."""
    seed: Seed
    """Of the random scores."""
