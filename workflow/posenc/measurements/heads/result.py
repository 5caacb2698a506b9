"""What it finds out about a run.

An offset is the position of the key minus that of the query, in tokens. Masses are shares of the
attention, means over queries; the text is all keys but the first token and the special ones.
"""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class TextMass(Part):
    """Mass of the text by offset."""

    text: list[float]
    """Within the window, [2 offsets + 1]."""
    text_before: float
    """Before the window."""
    text_after: float


class Mass(TextMass):
    """Mass of all keys by offset, and of the text."""

    mass: list[float]
    """Of all keys within the window, [2 offsets + 1]."""
    before: float
    """Of all keys before the window."""
    after: float


class UniformMass(Mass):
    """Masses of a head that attends to all keys that it sees alike."""

    first: float
    """Of the first token."""
    special: float
    """Of the other special tokens."""


class Peak(Part):
    """Where the mass of the text is furthest above a uniform pattern with as much of it there."""

    offset: int
    mass: Interval
    excess: float
    """How far above."""
    stability: float
    """Share of resamples with the same offset."""


class Looks(Mass):
    """Where one head looks."""

    layer: int
    head: int
    first: Interval
    """Mass of the first token."""
    special: Interval
    """Mass of the other special tokens."""
    previous: Interval
    """Mass of all keys at the offset -1; the next two are those at 0 and at 1."""
    self: Interval
    next: Interval
    peak: Peak
    mean_offset: float | None
    """Of the text within the window; None where there is no mass."""


class Head(Looks):
    """One head, and its kind."""

    type: str
    """Name of its type."""


class Strongest(Interval):
    """Mass at one place of the head that has most there."""

    layer: int
    head: int


class HeadType(TextMass):
    """Heads that look alike, with their mean masses."""

    name: str
    heads: int
    """How many there are."""
    first: float
    special: float


class Attention(OfDocuments):
    """Where the heads of a model look on a text."""

    is_causal: bool
    n_layers: int
    n_heads: int
    offsets: list[int]
    """Of the window, [2 offsets + 1]."""
    uniform: UniformMass
    heads: list[Head]
    """Of the first layer, then of the next one."""
    strongest: dict[str, Strongest]
    """By place: ``previous``, ``self``, ``next``, ``first``."""
    types: list[HeadType]
    types_explained: float
    """Share of the variance of the heads' masses, square roots, that lies between types."""
