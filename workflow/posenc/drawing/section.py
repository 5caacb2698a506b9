"""The ``figures`` section: sizes and choices of each figure; colours and fonts for all."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Name, Section

Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$", description="#RRGGBB.")]
Inches = Annotated[float, Field(gt=0.5, le=20, description="Length in inches.")]

Label = Annotated[str, Field(max_length=28, pattern=r"^\S(.*\S)?$", description="A few words.")]


class Style(Section):
    """What all figures share."""

    font_size: Annotated[float, Field(ge=6, le=20)] = 8.0
    """Points."""
    palette: Annotated[list[Colour], Field(min_length=4)] = [
        "#0072B2",
        "#D55E00",
        "#009E73",
        "#CC79A7",
        "#E69F00",
        "#56B4E9",
        "#000000",
    ]
    """Colours in order of use; the default is Okabe and Ito's (2008), which every common
    colour vision tells apart."""
    labels: dict[Name, Label] = Field(default_factory=dict)
    """What figures, tables and the page call a condition, a model, a data set, a table of
    positions, or what a mask means; others are called by their names. No job but theirs reads it.
    """


class Figure(Section):
    """Parameters that every figure has."""

    width: Inches
    height: Inches
