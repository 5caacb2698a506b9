"""What it finds out about a model on a text.

Errors are those of ridge probes of the position: means over tokens of the modulus, in tokens.
"""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class Subset(Part):
    """Errors of probes of some tokens alone."""

    tokens: int
    error: Interval
    """With the window."""
    causal: Interval
    """With all earlier tokens seen."""
    embedding: Interval
    """Of the token alone."""
    chance: Interval
    """Of the best constant."""
    difference: Interval
    """How far the window's error is above that with all earlier tokens seen."""
    gain: Interval
    """How far it is below that of the token alone."""


class Layer(Part):
    """Errors at one layer of a variant."""

    layer: int
    """From 0, the embedding."""
    name: str
    """``embedding``, ``block 1`` and so on, ``last``."""
    error: Interval
    difference: Interval
    """How far it is above that of the model without positions, at the same layer."""
    field: int | None
    """Receptive field in tokens; None without a window, and at the embedding."""
    inside: Subset | None
    """Tokens whose positions are inside the receptive field; None where ``field`` is, or where they
    are too few."""
    beyond: Subset | None
    """The same of those beyond it."""


class Variant(Part):
    """A model, and what its tokens see."""

    variant: str
    window: int | None
    """How many tokens each sees, itself included; None without a window."""
    spec: Spec | None
    """The condition, written out; None where it is none of the study's."""
    layers: list[Layer]


class VariantProbes(OfDocuments):
    """Errors of variants of a model, all of the same tokens; ``tokens`` are those sampled."""

    positions: int
    """Highest position of a token, and 1."""
    d_model: int
    chance: Interval
    """Error of the best constant."""
    variants: list[Variant]
