"""The ``masks`` section: masks that are learned from calibration text, the model frozen."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posenc.config.base import Batch, Length, Rate, Section, Seed, Slope, Steps

Start = Literal["intact", "zero", "mean", "keep_first", "keep_first_mean"]


class SlopeMask(Section):
    """One ALiBi slope for all heads: the best of a list on calibration text."""

    method: Literal["slope"]
    position: Start
    """What the position embeddings become beside the mask."""
    slopes: Annotated[list[Slope], Field(min_length=2)]


class DistilledMask(Section):
    """What position adds to the scores of the intact model, averaged over calibration text (A5)."""

    method: Literal["distilled"]
    position: Start
    """Of the model whose scores are subtracted."""
    layout: Literal["relative", "absolute"]
    """Averaged over pairs at the same distance, or over each pair of positions by itself."""
    first: bool
    """Whether the first key, on which attention rests, has averages of its own."""
    weights: Literal["uniform", "attention"]
    """``attention``: pairs count as the intact model attends to them, and each query's mean
    difference, which softmax does not see, is taken out."""
    sequential: bool
    """Layer by layer, each with the masks of those below it in place."""


class FittedMask(Section):
    """A few parameters a head, fitted by gradient to predict calibration text."""

    method: Literal["fitted"]
    position: Start
    """Where the vectors in place of the positions begin."""
    learn_position: bool
    """Fit a vector for the first position and one for all others."""
    terms: list[Literal["slope", "logarithm", "near", "first"]]
    """Of each head's bias: distance, log of 1 + distance, the nearest distances each by itself,
    and the first key."""
    near: Length = 4
    """How many distances, from 0, have a bias of their own under ``near``."""
    steps: Steps
    batch_documents: Batch
    learning_rate: Rate
    precision: Literal["float32", "bfloat16"]
    """bfloat16 computes the forward pass under autocast."""
    validate_steps: Steps
    """The parameters that are kept are the best of those tried every so many steps."""
    seed: Seed


LearnedMaskSource = Annotated[SlopeMask | DistilledMask | FittedMask, Field(discriminator="method")]
