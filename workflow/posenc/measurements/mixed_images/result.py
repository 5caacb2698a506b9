"""What it finds out about a pretrained network."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from posenc.artifacts.results import Interval, Part, Result


class Network(Part):
    """The network."""

    name: str
    numbers: int
    """Its parameters."""
    classes: int


class Picture(Part):
    """A photograph, and what the network finds in it alone."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    file: str
    label: int | None = Field(alias="class")
    """Its class; None where it is not known."""
    highest: int
    """The network's highest class."""
    recognised: bool
    """Whether that is its class, and no picture before it has the same."""


class Chance(Part):
    """What guessing finds, of pairs of different pictures."""

    both: float
    one: float
    """Either of the two."""
    other: float
    """Both, where one of them is known."""


class Recognition(Part):
    """Shares of pairs of which classes are among the highest of their mixture."""

    among: Literal["all", "pictures"]
    """Of all classes that the network has, or of those of the recognised pictures alone."""
    top: int
    """Among how many of the highest."""
    both: Interval
    first: Interval
    second: Interval
    either: Interval
    """At least one of the two."""
    outputs: Interval
    """Both, among the highest of the mixture of both outputs."""
    others: Interval
    """Both of two other pictures, which were not mixed."""
    absent: Interval
    """Both, among the highest of one of the two alone."""
    lost: Interval
    """``outputs`` less ``both``."""
    beyond_absent: Interval
    """``both`` less ``absent``."""


class Faded(Part):
    """Share of pictures whose class is among the highest where grey is mixed in."""

    top: int
    share: Interval


class Mixture(Part):
    """Mixtures w a + (1 - w) b of all pairs of recognised pictures."""

    weight: float
    """w."""
    found: list[Recognition]
    faded: list[Faded]
    """w a alone."""


class Recall(Part):
    """What the states of a stage tell of averages, and how far the network is from additive."""

    gap: Interval
    """Distance of the average's state from the average of both states, over that of the two states
    from each other: root mean squares over pairs."""
    inputs: Interval
    """Share of pairs that are the two pictures nearest to the state of their average."""
    outputs: Interval
    """The same of the average of both states."""


class Stage(Part):
    """A stage of the network, at equal weights."""

    stage: str
    trained: Recall
    untrained: Recall
    """Of the network with its initial weights."""
    difference: Interval
    """Trained less untrained, of ``inputs``."""


class Published(Part):
    """What the document found that raised the question, of one pair."""

    classifier: str
    images: list[str]
    weight: float
    found: int
    """Of the two."""
    both: float


class MixedPhotographs(Result):
    """What a pretrained network finds of two photographs in their average."""

    network: Network
    images: list[Picture]
    recognised: int
    """Pictures."""
    pairs: int
    """Of recognised pictures."""
    confidence: float
    chance: Chance
    mixtures: list[Mixture]
    stages: list[Stage]
    published: Published
