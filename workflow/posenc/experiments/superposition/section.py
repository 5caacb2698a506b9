"""Sums of two images before a classifier (B5): parameters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Draws, Layers, Section, Width
from posenc.config.optimization import Optimization
from posenc.experiments.declaration import STUDY, Experiment, Trials


class SuperpositionTraining(Section):
    """Sums of two images before a classifier (B5)."""

    width: Width
    """Channels of the residual network's first stage."""
    blocks: Layers
    """Residual blocks of a stage; there are two stages."""
    validation_share: Annotated[float, Field(gt=0, lt=0.5)]
    """Of the images; every choice is made on them."""
    test_share: Annotated[float, Field(gt=0, lt=0.5)]
    pairs: Annotated[Draws, Field(ge=10)]
    """Pairs of test images of different classes."""
    weights: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1)]
    """Mixing weights w of w a + (1 - w) b."""
    optimization: Optimization


class Superposition(SuperpositionTraining, Trials):
    """Superposition experiment with its seeds."""


EXPERIMENT = Experiment(Superposition, of=STUDY, reads=())
