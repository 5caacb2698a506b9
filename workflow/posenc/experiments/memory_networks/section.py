"""Memory networks on generated stories (E3): parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posenc.config.base import FirstSteps, Section, Width
from posenc.config.optimization import Optimization
from posenc.experiments.declaration import STUDY, Experiment, Trials

Task = Literal["one_fact", "two_facts", "order"]


class MemoryNetworksTraining(Section):
    """Memory networks on generated questions about stories (E3)."""

    tasks: Annotated[list[Task], Field(min_length=1)] = ["one_fact", "two_facts", "order"]
    """Kinds of stories, each with its question."""
    training_stories: Annotated[int, Field(ge=10, le=50_000)] = 4000
    """Stories of each task that networks learn from."""
    validation_stories: Annotated[int, Field(ge=10, le=10_000)] = 200
    """Stories by which every choice is made."""
    test_stories: Annotated[int, Field(ge=10, le=10_000)] = 400
    """Stories on which errors are counted."""
    d_model: Width = 32
    """Width of an embedding."""
    hops: Annotated[list[Annotated[int, Field(ge=1, le=3)]], Field(min_length=1)] = [1, 2, 3]
    """Of the end-to-end memory network."""
    linear_steps: FirstSteps = 250
    """First steps in which the end-to-end memory network has no softmax (linear start)."""
    optimization: Optimization
    """Of all networks but the dynamic memory network."""
    dynamic: Optimization
    """Of the dynamic memory network, whose recurrent units take more of a step."""
    attempts: Annotated[int, Field(ge=1, le=20)] = 4
    """Initial weights of the dynamic memory network that are tried at most: until it passes the
    task on validation stories, whose error chooses among them."""


class MemoryNetworks(MemoryNetworksTraining, Trials):
    """Experiment on memory networks with its seeds."""


EXPERIMENT = Experiment(MemoryNetworks, of=STUDY, reads=())
