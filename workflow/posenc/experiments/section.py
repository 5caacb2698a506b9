"""The ``experiments`` section: what is trained to answer a question, with several seeds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from posenc.config.base import (
    Documents,
    Draws,
    Factor,
    FirstSteps,
    HeadCount,
    Layers,
    Length,
    Line,
    Name,
    Section,
    Seed,
    Vocabulary,
    Width,
    check_heads,
)
from posenc.config.optimization import Optimization


class Trials(Section):
    """What all experiments have; trainings themselves do not depend on it."""

    seeds: Annotated[list[Seed], Field(min_length=2)]
    """Each is a job of its own."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    """Of the intervals over seeds."""

    @model_validator(mode="after")
    def _check_seeds(self) -> Trials:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {self.seeds} names one twice")
        return self


class DownstreamTraining(Section):
    """Classifiers on encoders with and without position embeddings (A6)."""

    dataset: Name
    training_documents: Annotated[Documents, Field(ge=8)]
    validation_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the training split too."""
    test_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the data set's evaluation split."""
    max_tokens: Annotated[Length, Field(ge=8)]
    """Documents are cut to so many, special tokens included."""
    excerpt: Literal["beginning", "end"]
    """Which part of a longer document is kept; at the end a review gives its verdict."""
    tasks: Annotated[list[Literal["sentiment", "word_swap"]], Field(min_length=1)]
    """The label of the data set; whether neighbouring words were exchanged."""
    swaps: Length
    """Pairs of neighbouring words that are exchanged in a document of the task word_swap."""
    trained_layers: Layers | None
    """The last layers that fine-tuning changes; null for all, embeddings included."""
    optimization: Optimization


class Downstream(DownstreamTraining, Trials):
    """Downstream experiment with its seeds."""


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


class TokenizersTraining(Section):
    """Tokenizers compared by bits a byte, with the same model budget (D3)."""

    datasets: Annotated[list[Name], Field(min_length=1)]
    training_documents: Annotated[Documents, Field(ge=8)]
    """Of each data set; tokenizers and models learn from them."""
    validation_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the training split too."""
    test_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the data set's evaluation split."""
    kinds: Annotated[
        list[Literal["whitespace", "character", "bpe", "unigram"]], Field(min_length=1)
    ]
    vocabulary_size: Annotated[Vocabulary, Field(ge=300)]
    """At most, special tokens included; of characters there may be fewer."""
    normalizations: Annotated[list[Literal["none", "NFKC"]], Field(min_length=1)]
    n_layers: Layers
    d_model: Width
    n_heads: HeadCount
    context_bytes: Annotated[Length, Field(ge=16)]
    """Texts are cut every so many bytes, so that a sequence has about as many, whatever the
    tokenizer."""
    optimization: Optimization

    @model_validator(mode="after")
    def _check_heads(self) -> TokenizersTraining:
        check_heads(self.d_model, self.n_heads)
        return self


class Tokenizers(TokenizersTraining, Trials):
    """Experiment on tokenizers with its seeds."""


class PretrainingTraining(Section):
    """GPT-1's ablation: pre-training, auxiliary objective, Transformer or LSTM (D5)."""

    dataset: Name
    pretraining_documents: Annotated[Documents, Field(ge=8)]
    """Without labels, of the training split; none of them is in another part."""
    training_documents: Annotated[Documents, Field(ge=8)]
    """With labels, of the training split."""
    validation_documents: Annotated[Documents, Field(ge=4)]
    test_documents: Annotated[Documents, Field(ge=4)]
    vocabulary_size: Annotated[Vocabulary, Field(ge=300)]
    tokens: Annotated[Length, Field(ge=8)]
    """Of a sequence. Classifiers read the end of a document, where a review has its verdict."""
    n_layers: Layers
    d_model: Width
    n_heads: HeadCount
    auxiliary_weight: Factor
    """Lambda of Radford et al. (2018), equation 5, beside 0."""
    pretraining: Optimization
    finetuning: Optimization

    @model_validator(mode="after")
    def _check_heads(self) -> PretrainingTraining:
        check_heads(self.d_model, self.n_heads)
        return self


class Pretraining(PretrainingTraining, Trials):
    """Experiment on pre-training with its seeds."""


class MemoryNetworksTraining(Section):
    """Memory networks on generated questions about stories (E3)."""

    tasks: Annotated[list[Literal["one_fact", "two_facts", "order"]], Field(min_length=1)]
    training_stories: Annotated[int, Field(ge=10, le=50_000)]
    validation_stories: Annotated[int, Field(ge=10, le=10_000)]
    test_stories: Annotated[int, Field(ge=10, le=10_000)]
    d_model: Width
    hops: Annotated[list[Annotated[int, Field(ge=1, le=3)]], Field(min_length=1)]
    """Of the end-to-end memory network."""
    linear_steps: FirstSteps
    """First steps in which the end-to-end memory network has no softmax (linear start)."""
    optimization: Optimization
    """Of all networks but the dynamic memory network."""
    dynamic: Optimization
    """Of the dynamic memory network, whose recurrent units take more of a step."""


class MemoryNetworks(MemoryNetworksTraining, Trials):
    """Experiment on memory networks with its seeds."""


class Experiments(Section):
    """One entry a kind of experiment, each with named sizes; a study takes at most one of each."""

    downstream: dict[Name, Downstream]
    superposition: dict[Name, Superposition]
    tokenizers: dict[Name, Tokenizers]
    pretraining: dict[Name, Pretraining]
    memory_networks: dict[Name, MemoryNetworks]


class Chosen(Section):
    """Which size of each kind of experiment a study has; a kind that is left out is not run."""

    downstream: Name | None = None
    superposition: Name | None = None
    tokenizers: Name | None = None
    pretraining: Name | None = None
    memory_networks: Name | None = None

    @property
    def kinds(self) -> list[str]:
        """Those that the study has."""
        return [kind for kind in EXPERIMENTS if getattr(self, kind) is not None]


EXPERIMENTS = tuple(Chosen.model_fields)
"""All kinds; ``downstream`` has one measurement for each pretrained model, the others one."""
