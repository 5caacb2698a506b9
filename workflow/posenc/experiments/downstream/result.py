"""What it finds out about a model."""

from __future__ import annotations

from typing import Literal

from posenc.artifacts.results import Interval, Part
from posenc.experiments.results import OfSeeds, OverSeeds


class Documents(Part):
    """Documents of each part."""

    training: int
    validation: int
    test: int


class OrderSensitivity(OverSeeds):
    """1 - kappa of a classifier's answers to documents and to their shuffled words, in [0, 2]."""

    status: Literal["measured"]
    reason: None


class Constant(Part):
    """Why there is no sensitivity: a classifier gives all documents one label."""

    status: Literal["not run"]
    reason: str


class Answers(Part):
    """What classifiers of one kind answer, as shares of documents; of the test unless said."""

    accuracy: OverSeeds
    validation_accuracy: OverSeeds
    accuracy_shuffled: OverSeeds
    """Accuracy on the same documents with their words shuffled."""
    lost: OverSeeds
    """By how much it is lower."""
    changed: OverSeeds
    """Documents whose label changes when their words are shuffled."""
    order_sensitivity: OrderSensitivity | Constant


class Classifier(Answers):
    """Classifiers that are trained on the pretrained model."""

    task: str
    method: str
    """``frozen`` or ``fine_tuned``."""
    positions: str

    @property
    def place(self) -> str:
        """``sentiment.frozen.intact`` and so on."""
        return f"{self.task}.{self.method}.{self.positions}"


class Gain(Part):
    """What positions add to the accuracy."""

    task: str
    method: str
    gain: OverSeeds

    @property
    def place(self) -> str:
        """``sentiment.frozen`` and so on."""
        return f"{self.task}.{self.method}"


class Advantage(Part):
    """By how much classifiers are more accurate than a bag of words."""

    method: str
    positions: str
    gain: OverSeeds

    @property
    def place(self) -> str:
        """``intact.frozen`` and so on."""
        return f"{self.positions}.{self.method}"


class BagOfWords(Answers):
    """A classifier that knows the words of a document, not their order."""

    task: str
    beside: list[Advantage]


class Control(Part):
    """Right answers of all seeds where only the order of words tells, and no one has it."""

    task: str
    method: str
    positions: str
    correct: int
    documents: int
    accuracy: Interval
    """Clopper and Pearson's interval."""
    p_value: float
    """Two-sided, against guessing."""


class Shuffling(Part):
    """How far shuffled words move a document's mean hidden state, relative to its length."""

    positions: str
    mean: OverSeeds
    largest: float


class Downstream(OfSeeds):
    """Classifiers with and without positions, and of a bag of the same words."""

    chance: float
    documents: Documents
    max_tokens: int
    excerpt: str
    """Which part of a longer document is read: ``beginning`` or ``end``."""
    swaps: int
    """Pairs of words that are exchanged in a document of the task ``word_swap``."""
    trained_layers: int | None
    """The last layers that fine-tuning changes; None for all."""
    results: list[Classifier]
    gains: list[Gain]
    bags_of_words: list[BagOfWords]
    control: list[Control]
    """None where the task ``word_swap`` is left out."""
    shuffling: list[Shuffling]
