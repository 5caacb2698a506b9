"""The ``figures`` section: sizes and choices of each figure; colours and fonts for all."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Section

Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$", description="#RRGGBB.")]
Inches = Annotated[float, Field(gt=0.5, le=20, description="Length in inches.")]


class Style(Section):
    """What all figures share."""

    font_size: Annotated[float, Field(ge=6, le=20)]
    """Points."""
    palette: Annotated[list[Colour], Field(min_length=4)]
    """Colours in order of use; the default is Okabe and Ito's colour-blind-safe set."""


class Figure(Section):
    """Parameters that every figure has."""

    width: Inches
    height: Inches
