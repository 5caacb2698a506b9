"""Tokenizers compared by bits per byte (D3): parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from posenc.config.base import (
    Documents,
    Factor,
    HeadCount,
    Layers,
    Length,
    Name,
    Section,
    Steps,
    Vocabulary,
    Width,
    check_heads,
)
from posenc.config.optimization import Optimization
from posenc.experiments.declaration import CORPORA, LABELLED, STUDY, Experiment, Trials


class TokenizersTraining(Section):
    """Tokenizers compared by bits per byte, with the same model budget (D3)."""

    datasets: Annotated[list[Name], Field(min_length=1)]
    """The labelled one and the corpora of a study, in their order."""
    training_documents: Annotated[Documents, Field(ge=8)]
    """Of each data set; tokenizers and models learn from them."""
    validation_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the training split too."""
    test_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the data set's evaluation split."""
    kinds: Annotated[
        list[Literal["whitespace", "character", "bpe", "unigram"]], Field(min_length=1)
    ] = ["whitespace", "character", "bpe", "unigram"]
    """Tokenizers that are compared."""
    vocabulary_size: Annotated[Vocabulary, Field(ge=300)]
    """At most, special tokens included; of characters there may be fewer."""
    normalizations: Annotated[list[Literal["none", "NFKC"]], Field(min_length=1)] = ["none", "NFKC"]
    """Unicode forms that each of them reads."""
    n_layers: Layers = 2
    """Of the language model."""
    d_model: Width
    """Its width."""
    n_heads: HeadCount = 4
    """Attention heads of a layer."""
    context_bytes: Annotated[Length, Field(ge=16)]
    """Texts are cut every so many bytes, so that a sequence has about as many, whatever the
    tokenizer."""
    optimization: Optimization
    """Its steps are the most that are taken; how many are is chosen on validation documents."""
    rate_factors: Annotated[list[Factor], Field(min_length=1)]
    """Learning rates that are tried, as factors of the optimization's."""
    tried_steps: Steps
    """What each rate is tried for, before validation documents choose one that goes on."""

    @property
    def rates(self) -> list[float]:
        """Learning rates that are tried."""
        return [factor * self.optimization.learning_rate for factor in self.rate_factors]

    @property
    def steps(self) -> int:
        """Most steps of all trainings together: the best rate's first ones are not taken again."""
        return (len(self.rate_factors) - 1) * self.tried_steps + self.optimization.steps

    @model_validator(mode="after")
    def _check(self) -> TokenizersTraining:
        check_heads(self.d_model, self.n_heads)
        if len(set(self.rate_factors)) < len(self.rate_factors):
            raise ValueError(f"rate_factors {self.rate_factors} names one twice")
        if max(self.rates) > 1:
            raise ValueError(
                f"rate_factors {self.rate_factors} times learning_rate "
                f"{self.optimization.learning_rate} passes 1: lower one of them"
            )
        every, steps = self.optimization.validate_steps, self.optimization.steps
        if self.tried_steps % every or self.tried_steps > steps:
            raise ValueError(
                f"tried_steps is {self.tried_steps}; make it a multiple of validate_steps {every}, "
                f"of at most steps {steps}: a rate is chosen by a validation"
            )
        if 3 * every > 2 * steps:
            raise ValueError(
                f"validate_steps is {every} of {steps} steps: make it two thirds of them at most, "
                f"so that what a training still learned in its last third can be told"
            )
        if self.optimization.enough is not None:
            raise ValueError("enough: leave it out of optimization; what is enough is not known")
        patience = self.optimization.patience
        if patience is not None and patience * every < self.tried_steps:
            raise ValueError(
                f"patience {patience} of validate_steps {every} may end before tried_steps "
                f"{self.tried_steps}: raise patience in optimization"
            )
        return self


class Tokenizers(TokenizersTraining, Trials):
    """Experiment on tokenizers with its seeds."""


EXPERIMENT = Experiment(Tokenizers, of=STUDY, reads=(LABELLED, CORPORA))
