"""Sums of two images before a classifier (B5): parameters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Draws, Layers, MixingWeights, Section, Width
from posenc.config.optimization import Optimization
from posenc.experiments.declaration import STUDY, Experiment, Trials


class SuperpositionTraining(Section):
    """Sums of two images before a classifier (B5)."""

    width: Width = 8
    """Channels of the residual network's first stage."""
    blocks: Layers = 1
    """Residual blocks of a stage; there are two stages."""
    validation_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.2
    """Of the images; every choice is made on them."""
    test_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.2
    """Of the images; results are of them alone."""
    pairs: Annotated[Draws, Field(ge=10)] = 400
    """Pairs of test images of different classes."""
    weights: MixingWeights = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    """Mixing weights w of w a + (1 - w) b."""
    optimization: Optimization
    """How the network is trained."""


class Superposition(SuperpositionTraining, Trials):
    """Superposition experiment with its seeds."""


EXPERIMENT = Experiment(Superposition, of=STUDY, reads=())
