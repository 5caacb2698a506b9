"""What it finds out about a run."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class Gains(Part):
    """How far the error of each probe of the position is below the best constant's, in tokens."""

    ridge: Interval
    ridge_control: Interval
    relu: Interval
    relu_control: Interval | None = None
    """As of :class:`PositionErrors`."""


class PositionErrors(Part):
    """Mean absolute errors of probes of the position, in tokens.

    Controls are fitted to shuffled labels.
    """

    ridge: Interval
    """Of the linear probe."""
    ridge_control: Interval
    relu: Interval
    relu_control: Interval | None
    """None at layers where it is not fitted."""
    gain: Gains


class OrderErrors(Part):
    """Shares of pairs of tokens that probes put in the wrong order; a tie is half an error."""

    logistic: Interval
    """Of the linear probe."""
    logistic_control: Interval
    relu: Interval
    relu_control: Interval | None
    """As of :class:`PositionErrors`."""


class Layer(Part):
    """What probes read from the hidden states of one layer."""

    layer: int
    """From 0, the embedding."""
    name: str
    """``embedding``, ``block 1`` and so on, ``last``."""
    position: PositionErrors
    order: OrderErrors


class Chance(Part):
    """Errors of the best constants."""

    position: Interval
    """In tokens."""
    order: float


class PositionProbes(OfDocuments):
    """Errors of linear and ReLU probes of position by layer; ``tokens`` are those sampled."""

    pairs: int
    """Pairs of tokens of one document."""
    positions: int
    """Highest position of a token, and 1."""
    d_model: int
    chance: Chance
    relu_control_layers: list[int]
    """Layers whose ReLU probe is fitted to shuffled labels too."""
    layers: list[Layer]
