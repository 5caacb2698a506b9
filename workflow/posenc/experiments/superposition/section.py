"""Sums of two images before a classifier (B5): parameters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.config.base import Draws, Layers, Line, Section, Width
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
    pretrained: Line | None
    """Folder of resnet-50 in the hub's format; null where it is not at hand."""
    images: list[Line]
    """Two images of one's own for it."""
    optimization: Optimization

    @model_validator(mode="after")
    def _check_images(self) -> SuperpositionTraining:
        if self.pretrained is not None and len(self.images) != 2:
            raise ValueError(f"pretrained needs two images, not {len(self.images)}")
        return self


class Superposition(SuperpositionTraining, Trials):
    """Superposition experiment with its seeds."""


EXPERIMENT = Experiment(Superposition, of=STUDY, reads=())
