"""What it finds out about a data set."""

from __future__ import annotations

from posenc.artifacts.results import Part
from posenc.experiments.results import OfSeeds, OverSeeds


class Parameters(Part):
    """Numbers of parameters of the two networks, and by which share they differ."""

    transformer: int
    lstm: int
    relative_difference: float


class Quality(Part):
    """Loss of a language model on the beginnings of texts."""

    nll: OverSeeds
    """In nats per token."""
    perplexity: OverSeeds
    bits_per_byte: OverSeeds


class ZeroShot(Part):
    """Shares of test texts that a language model tells without fine-tuning.

    ``words`` are two that tell the label, ``control`` two that do not.
    """

    words: OverSeeds
    """Texts behind which their own label's word is rather expected."""
    words_ranked: OverSeeds
    """Pairs of texts of either label whose losses are in order, whatever the words' prior."""
    control: OverSeeds
    control_ranked: OverSeeds


class ZeroShotAt(ZeroShot):
    """The same after some steps of the pre-training."""

    step: int


class LanguageModel(Part):
    """The pre-trained language model of one architecture."""

    architecture: str
    validation_loss: OverSeeds
    """In nats per token."""
    best_step: OverSeeds
    steps: OverSeeds
    validation: Quality
    test: Quality
    zero_shot: list[ZeroShotAt]
    """By steps, from 0."""
    zero_shot_gain: ZeroShot
    """The last less the first."""


class Cell(Part):
    """A classifier that is trained in one way; losses are in nats per document."""

    pretrained: bool
    auxiliary: bool
    """Whether its loss has the auxiliary objective, too."""
    architecture: str
    accuracy: OverSeeds
    validation_accuracy: OverSeeds
    validation_loss: OverSeeds
    test_loss: OverSeeds
    best_step: OverSeeds
    steps: OverSeeds

    @property
    def place(self) -> str:
        """``pretrained.auxiliary.transformer`` and so on."""
        old = "pretrained" if self.pretrained else "new"
        return f"{old}.{'auxiliary' if self.auxiliary else 'plain'}.{self.architecture}"


class Setting(Part):
    """What a factor changes where the other two, which are given, have these values."""

    pretrained: bool | None = None
    auxiliary: bool | None = None
    architecture: str | None = None
    difference: OverSeeds
    """Of the accuracy, paired by seed."""


class Effect(Part):
    """What a factor changes: the accuracy with its first level, less that with its second."""

    factor: str
    levels: list[bool | str]
    """[2]"""
    average: OverSeeds
    """Over the settings of the other factors."""
    settings: list[Setting]
    """The first has everything that GPT-1 has: it is the published ablation."""


class Transfer(Part):
    """A Transformer of which so many blocks, from the first, and the embeddings are pre-trained."""

    layers: int
    accuracy: OverSeeds
    gain: OverSeeds
    """Over a new Transformer, paired by seed."""


class Ablation(OfSeeds):
    """GPT-1's ablation: accuracies of classifiers by how they are trained."""

    dataset: str
    sizes: dict[str, int | float | str | None]
    """Parameters of the experiment that are single values."""
    auxiliary_weight: float
    """Of the auxiliary objective, where there is one."""
    chance: float
    parameters: Parameters
    language_models: list[LanguageModel]
    cells: list[Cell]
    effects: list[Effect]
    transfer: list[Transfer]
    """By number of blocks, from 0 to all."""
