"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part
from posenc.measurements.filtered_loss import result as filtered_loss


class Difference(filtered_loss.Difference):
    """One run of the model less another, on the same documents."""

    share: Interval | None
    """Of what is lost without positions, 0 is intact and 1 is without; None where nothing is."""


class Costs(Part):
    """What an intervention costs, and its controls, less the intact model; and beyond each."""

    own: Difference
    permuted: Difference
    """With the mean part of other positions, by one permutation."""
    beyond_permuted: Difference
    offset: Difference
    """With the mean over positions."""
    beyond_offset: Difference


class Output(Part):
    """The last states, or those at the input of a layer, and what interventions there cost.

    Lengths are root mean squares.
    """

    position: float
    """Length of position's mean part, less its mean over positions."""
    offset: float
    """Length of this mean."""
    states: float
    """Length of the intact model's states, less their mean over tokens."""
    alignment: float | None
    """Cosine of position's mean part with that of the first layer; None where either has none."""
    removed: Costs
    injected: Costs


class Layer(Output):
    """States at the input of a layer, and what interventions there cost."""

    layer: int
    withheld: Costs


class PositionInterventions(OfDocuments):
    """What it costs to take position from one place in a model, and what it is to add it there."""

    is_causal: bool
    n_layers: int
    positions: int
    """That have a mean part."""
    calibration: int
    """Other documents, of which it is estimated."""
    nll: Interval | None
    """Of the intact model, in nats per token; None of an encoder."""
    without: Difference
    """The model without its table, less the intact one."""
    layers: list[Layer]
    output: Output
    """Of the last states, which no layer reads."""
