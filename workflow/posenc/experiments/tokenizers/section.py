"""Tokenizers compared by bits per byte (D3): parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from posenc.config.base import (
    Documents,
    HeadCount,
    Layers,
    Length,
    Name,
    Section,
    Vocabulary,
    Width,
    check_heads,
)
from posenc.config.optimization import Optimization
from posenc.experiments.declaration import CORPORA, LABELLED, STUDY, Experiment, Trials


class TokenizersTraining(Section):
    """Tokenizers compared by bits per byte, with the same model budget (D3)."""

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


EXPERIMENT = Experiment(Tokenizers, of=STUDY, reads=(LABELLED, CORPORA))
