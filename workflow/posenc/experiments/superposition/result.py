"""What it finds out about classifiers of digits."""

from __future__ import annotations

from posenc.artifacts.results import Part
from posenc.experiments.results import OfSeeds, OverSeeds


class Images(Part):
    """Images of each part, and the pairs of test images that are mixed."""

    training: int
    validation: int
    test: int
    pairs: int
    classes: int


class Chance(Part):
    """Shares of pairs of different classes in which guessing finds them."""

    both: float
    one: float
    """Either."""
    other: float
    """Both, where one of them is known."""


class Recall(Part):
    """Shares of pairs of which both, the first or the second have the two highest scores."""

    both: OverSeeds
    first: OverSeeds
    second: OverSeeds


class Gap(Part):
    """How far stages of a network are from additive, at a mixing weight."""

    weight: float
    """w of the mixtures w a + (1 - w) b."""
    gap: dict[str, OverSeeds]
    """By stage: the output of the mixture less the mixture of outputs, over the length of the
    latter; ``logits`` come last."""


class Mixture(Gap):
    """What a classifier finds of pairs at a mixing weight, too."""

    inputs: Recall
    """Where images are mixed."""
    outputs: Recall
    """Where the outputs of both images are mixed."""


class Control(Part):
    """Pairs of all seeds of which the second was not mixed in."""

    both: int
    """Pairs of which both were found."""
    first: int
    """Pairs of which the first was."""
    share: float
    """``both`` over ``first``."""
    expected: float
    """The share that guessing gives."""
    p_value: float
    """Two-sided, of the exact binomial test."""


class Classifier(Part):
    """A classifier, by its name: ``relu``, ``affine`` or ``logistic_regression``."""

    name: str
    numbers: int
    """That it has learned."""
    accuracy: OverSeeds
    """Of single images."""
    mixtures: list[Mixture]
    control: Control | None
    """None where the first is never found."""


class Difference(Part):
    """Recall of both by the residual network, less that of another, paired by seed."""

    weight: float
    logistic_regression: OverSeeds
    outputs: OverSeeds
    """Less that of its own mixed outputs."""


class Superposition(OfSeeds):
    """What classifiers find of two mixed images, and how far they are from additive."""

    images: Images
    chance: Chance
    classifiers: list[Classifier]
    differences: list[Difference]
    without_relu: list[Gap]
    """Of the trained network whose ReLUs are taken out."""
    affine_gap: float
    """The largest of all maps without ReLUs, at all weights and stages of all seeds."""
