"""Classifiers with and without position embeddings (A6): parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posenc.config.base import Documents, Layers, Length, Name, Section
from posenc.config.optimization import Optimization
from posenc.experiments.declaration import LABELLED, MODEL, Experiment, Trials

BAG_OF_WORDS, NO_ORDER = "bag_of_words", "none"
"""The method that reads the words of a document in no order, and what it has for positions."""

Task = Literal["sentiment", "word_swap"]


class DownstreamTraining(Section):
    """Classifiers on pretrained models with and without position embeddings or rotation (A6)."""

    dataset: Name
    """The study's labelled one."""
    training_documents: Annotated[Documents, Field(ge=8)]
    """Drawn from the training split."""
    validation_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the training split too."""
    test_documents: Annotated[Documents, Field(ge=4)]
    """Drawn from the data set's evaluation split."""
    max_tokens: Annotated[Length, Field(ge=8)]
    """Documents are cut to so many, special tokens included."""
    excerpt: Literal["beginning", "end"] = "end"
    """Which part of a longer document is kept; at the end a review gives its verdict."""
    tasks: Annotated[list[Task], Field(min_length=1)] = ["sentiment", "word_swap"]
    """The label of the data set; whether neighbouring words were exchanged."""
    swaps: Length
    """Pairs of neighbouring words that are exchanged in a document of the task word_swap."""
    trained_layers: Layers | None = None
    """The last layers that fine-tuning changes; null for all, embeddings included."""
    optimization: Optimization
    """How a classifier is trained."""


class Downstream(DownstreamTraining, Trials):
    """Downstream experiment with its seeds."""


EXPERIMENT = Experiment(Downstream, of=MODEL, reads=(LABELLED,), on_gpu=True)
