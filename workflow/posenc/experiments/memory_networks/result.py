"""What it finds out about memory networks."""

from __future__ import annotations

from posenc.artifacts.results import Part
from posenc.experiments.results import OfSeeds, OverSeeds


class Guess(Part):
    """Lowest expected error of those who see only a part of the story."""

    nothing: float
    """Only how frequent answers are."""
    story: float
    """The words of the whole story and of the question, without order."""
    sentences: float
    """The words of each sentence and the order of sentences, but no order of words."""


class Task(Part):
    """A kind of stories with its question."""

    task: str
    guess: Guess


class Variant(Part):
    """A network on a task."""

    task: str
    network: str
    hops: int | None
    """None where it has none."""
    positions: bool | None
    """Whether words are weighted by their place in the sentence; None where there is no choice."""


class Cell(Variant):
    """Errors of a network, as shares of wrong answers."""

    supervised: bool
    """Whether it learns from the numbers of the supporting sentences, too."""
    parameters: int
    attempts: list[int]
    """Initial weights that were tried [seeds]; validation chose among them."""
    error: OverSeeds
    """On test stories."""
    validation_error: OverSeeds
    training_error: OverSeeds
    facts_found: list[OverSeeds] | None
    """Share of test stories in which a hop looks most at a supporting sentence [hops]; None without
    a memory."""
    facts_in_order: list[OverSeeds] | None
    """The same of the supporting sentence of its turn [facts]."""


class Difference(Variant, OverSeeds):
    """Test error of a network less that of the same with another value, paired by seed."""

    minus: bool | int
    """That value."""


class Differences(Part):
    """Differences by what is varied."""

    positions: list[Difference]
    """Less the same network without word positions."""
    hops: list[Difference]
    """Less the same network of one hop."""


class GuessTest(Variant):
    """Whether a network that must guess is less often wrong than guesses."""

    seen: str
    """What it sees: ``story`` and ``sentences`` as in :class:`Guess`, or ``one_hop``."""
    level: float
    """Share of wrong guesses."""
    questions: int
    """Of all seeds."""
    wrong: int
    p: float
    """Probability that guesses have as few wrong answers or fewer."""


class Published(Part):
    """A published error, of other tasks."""

    network: str
    error: float
    description: str
    source: str


class MemoryNetworks(OfSeeds):
    """Errors of memory networks on generated stories, and what each needs to answer."""

    training_stories: int
    """Of each task."""
    test_stories: int
    tasks: list[Task]
    cells: list[Cell]
    differences: Differences
    guesses: list[GuessTest]
    pattern_deviation: float | None
    """Largest difference of a sum of attention weights from one; None without patterns."""
    published: Published
