"""The ``masks`` section: masks that are learned from calibration text, the model frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from posenc.config.base import Batch, Documents, Length, Name, Rate, Section, Seed, Slope, Steps

Placebo = Literal["over_heads", "within_layers", "one_per_layer"]
Term = Literal["slope", "logarithm", "near", "first"]
Start = Literal["intact", "zero", "mean", "keep_first", "keep_first_mean"]


class SlopeMask(Section):
    """One ALiBi slope for all heads: the best of a list on calibration text."""

    method: Literal["slope"]
    position: Start
    """What the position embeddings become beside the mask."""
    slopes: Annotated[list[Slope], Field(min_length=2)] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    """That are tried, in nats per token of distance."""


class DistilledMask(Section):
    """What position adds to the scores of the intact model, averaged over calibration text (A5)."""

    method: Literal["distilled"]
    position: Start
    """Of the model whose scores are subtracted."""
    layout: Literal["relative", "absolute"] = "relative"
    """Averaged over pairs at the same distance, or over each pair of positions by itself."""
    first: bool = False
    """Whether the first key, on which attention rests, has averages of its own."""
    weights: Literal["uniform", "attention"] = "uniform"
    """``attention``: pairs count as the intact model attends to them, and each query's mean
    difference, which softmax does not see, is taken out."""
    sequential: bool = False
    """Layer by layer, each with the masks of those below it in place."""
    of: Literal["model", "scores"] = "model"
    """Less the scores of the model without positions, or (rotary models) those that the same
    queries and keys have before rotation."""
    temperature: bool = False
    """As for the closed form; with ``of: scores``."""

    @model_validator(mode="after")
    def _check_of(self) -> DistilledMask:
        if self.of == "scores" and self.sequential:
            raise ValueError("of 'scores' has no order of layers: set sequential to false")
        if self.temperature and (self.of != "scores" or self.layout != "relative"):
            raise ValueError("temperature needs of: scores and layout: relative")
        return self


class ClosedFormMask(Section):
    """What mean queries and keys say that position adds to the scores (F3): no gradient, no fit."""

    method: Literal["closed_form"]
    position: Start = "zero"
    """What the positions become beside the mask."""
    documents: Documents | None = None
    """Documents of the calibration text that the means are of; null for all that masks are fitted
    on."""
    tokens: Length | None = None
    """Of each document that the means are of, its first ones; null for all of a document."""
    seed: Seed
    """Of the draw of the documents, and of the placebo."""
    first: bool = True
    """Whether the first key, on which attention rests, has a mean of its own."""
    temperature: bool = False
    """Whether the scores of each head are divided by a number (least squares) before the mask."""
    placebo: Placebo | None = None
    """Curves of other heads, or of no head, in place of a head's own."""


class MeanVectors(Section):
    """Mean queries and keys of each head before rotation: what F7 needs. No gradient, no fit."""

    method: Literal["means"]
    position: Literal["zero"] = "zero"
    """Queries and keys are those before rotation."""
    documents: Documents | None = None
    """Documents of the calibration text that the means are of; null for all that masks are fitted
    on."""
    tokens: Length | None = None
    """Of each of these documents, its first ones; null for all of a document."""
    seed: Seed
    """Of the draw of the documents, and of the placebo."""
    first: bool = True
    """Whether the first key, on which attention rests, has a mean of its own."""
    placebo: Literal["over_heads", "neighbours", "one_per_layer"] | None = None
    """Means of other heads, of the next head of the layer, or one of a layer, in place of a head's
    own."""


class FittedMask(Section):
    """A few parameters per head, fitted by gradient to predict calibration text."""

    method: Literal["fitted"]
    position: Start
    """The model that it is fitted on; where the vectors in place of its positions begin."""
    learn_position: bool = False
    """Fit a vector for the first position and one for all others, in place of the positions; they
    are added to a table that is intact."""
    terms: list[Term] = ["slope", "logarithm", "near", "first"]
    """Of each head's bias: distance, log of 1 + distance, the nearest distances each by itself,
    and the first key."""
    begin: Name | None = None
    """The mask that it begins with: what is fitted is added to it."""
    distances: Literal["offsets", "hashed"] = "offsets"
    """``hashed``: a placebo that knows no order. As many parameters, but the distance (and side) of
    two tokens is a hash of their ids; only the first key stays what it is."""
    near: Length = 4
    """How many distances, from 0, have a bias of their own under ``near``."""
    steps: Steps = 80
    """Of the fit."""
    batch_documents: Batch = 8
    """Calibration documents of a step."""
    learning_rate: Rate = 0.03
    """Of Adam."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 computes the forward pass under autocast."""
    validate_steps: Steps = 20
    """The parameters that are kept are the best of those tried every so many steps."""
    seed: Seed

    @property
    def adds(self) -> bool:
        """Whether its vectors are added to the positions, and not in place of them."""
        return self.learn_position and self.position == "intact"

    @model_validator(mode="after")
    def _check_distances(self) -> FittedMask:
        if self.distances == "hashed" and self.begin is not None:
            raise ValueError("hashed distances begin with no mask: leave begin out")
        return self


LearnedMaskSource = Annotated[
    SlopeMask | ClosedFormMask | DistilledMask | MeanVectors | FittedMask,
    Field(discriminator="method"),
]


def beneath(masks: Mapping[str, LearnedMaskSource], name: str) -> list[str]:
    """The masks that a mask begins with, one on the other, the nearest first.

    Raises
    ------
    ValueError
        If one of them is missing, or they form a circle.
    """
    chain: list[str] = []
    on = getattr(masks[name], "begin", None)
    while on is not None:
        if on not in masks:
            raise ValueError(f"masks.{name} begins with {on!r}, which is not defined in masks")
        if on == name or on in chain:
            raise ValueError(
                f"masks.{name}.begin leads back to {on!r}: masks begin with each other"
            )
        chain.append(on)
        on = getattr(masks[on], "begin", None)
    return chain
