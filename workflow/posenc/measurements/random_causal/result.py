"""What it finds out about random models.

Variances are over the entries of the output of a layer's attention, as means over sequences.
"""

from __future__ import annotations

from posenc.artifacts.results import Part, Result


class OverModels(Part):
    """Mean and standard deviation over models."""

    mean: float
    sd: float


class Curve(Part):
    """The same by position, [tokens] each."""

    mean: list[float]
    sd: list[float]


class Deviation(Part):
    """How far the scaled variance is from 1, as modulus, over positions."""

    mean: OverModels
    largest: OverModels


class Layer(Part):
    """The variance by position in one layer."""

    layer: int
    """From 0, the first block."""
    first_variance: OverModels
    """At the first position."""
    scaled: Curve
    """The variance, over that at the first position, times the position from 1."""
    deviation: Deviation
    exponent: OverModels
    """Of the power of the position from 1 that the variance follows."""


class Variant(Part):
    """The models with or without positions, and with or without a causal mask."""

    name: str
    description: str
    layers: list[Layer]


class Law(Part):
    """What holds where each token attends to all before it alike, and these are independent."""

    scaled: float
    exponent: float


class RandomModels(Result):
    """Variance by position in random models, whose variants have the same weights and sequences."""

    models: int
    sequences: int
    """Random sequences that each model reads."""
    tokens: int
    """Of a sequence."""
    n_layers: int
    n_heads: int
    d_model: int
    law: Law
    variants: list[Variant]
