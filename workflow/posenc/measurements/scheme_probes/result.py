"""What it finds out about a decoder on a text."""

from __future__ import annotations

from posenc.artifacts.results import Part
from posenc.measurements.probes.result import PositionProbes


class Training(Part):
    """What is copied from the summary of the training; losses in nats per token."""

    steps: int
    tokens_seen: int
    final_training_loss: float
    final_validation_loss: float


class SchemeProbes(PositionProbes):
    """Probes of a decoder, and how well it predicts."""

    scheme: str
    """What tells it of positions."""
    training: Training
