"""GPT-1's ablation (D5): parameters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posenc.config.base import (
    Documents,
    Factor,
    HeadCount,
    Layers,
    Length,
    Line,
    Name,
    Section,
    Vocabulary,
    Width,
    check_heads,
)
from posenc.config.optimization import Optimization
from posenc.experiments.declaration import LABELLED, STUDY, Experiment, Trials


class ZeroShot(Section):
    """How a language model classifies without a classifier: by the word that it expects (Q6)."""

    prompt: Line
    """What is put behind a text, such as Radford et al.'s (2018, section 5) ``very``; a text that
    has it ends there."""
    words: dict[str, Line]
    """By label, the word that is expected then."""
    control: dict[str, Line]
    """By label, words that say nothing of it: they are right by chance."""

    @property
    def answers(self) -> dict[str, dict[str, str]]:
        """Both kinds of words, by their names."""
        return {"words": self.words, "control": self.control}

    @model_validator(mode="after")
    def _check_labels(self) -> ZeroShot:
        if sorted(self.words) != sorted(self.control) or len(self.words) != 2:
            raise ValueError(
                f"words and control need the same two labels, not {sorted(self.words)} and "
                f"{sorted(self.control)}"
            )
        return self


class PretrainingTraining(Section):
    """GPT-1's ablation: pre-training, auxiliary objective, Transformer or LSTM (D5)."""

    dataset: Name
    pretraining_documents: Annotated[Documents, Field(ge=8)]
    """Without labels, of the training split; none of them is in another part."""
    training_documents: Annotated[Documents, Field(ge=8)]
    """With labels, of the training split."""
    validation_documents: Annotated[Documents, Field(ge=4)]
    """With labels, of the training split; every choice is made on them."""
    test_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the data set's evaluation split."""
    vocabulary_size: Annotated[Vocabulary, Field(ge=300)]
    """Tokens of the tokenizer, special ones included."""
    tokens: Annotated[Length, Field(ge=8)]
    """Of a sequence. Classifiers read the end of a document, where a review has its verdict."""
    n_layers: Layers
    """Of the Transformer."""
    d_model: Width
    """Width of both networks."""
    n_heads: HeadCount = 4
    """Attention heads of a layer."""
    auxiliary_weight: Factor = 0.5
    """Lambda of Radford et al. (2018), equation 5, beside 0."""
    zero_shot: ZeroShot
    """What the language models are asked at each validation of their pre-training."""
    pretraining: Optimization
    """How a language model is trained."""
    finetuning: Optimization
    """How a classifier is trained."""

    @model_validator(mode="after")
    def _check_heads(self) -> PretrainingTraining:
        check_heads(self.d_model, self.n_heads)
        return self


class Pretraining(PretrainingTraining, Trials):
    """Experiment on pre-training with its seeds."""


EXPERIMENT = Experiment(Pretraining, of=STUDY, reads=(LABELLED,))
