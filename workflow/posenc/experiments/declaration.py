"""What an experiment says of itself: its ``section`` module holds this, and all else follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from pydantic import Field, model_validator

from posenc.config.base import Confidence, Section, SeedNumber

MODEL = ("model",)
"""A measurement for each model that the study fine-tunes."""
STUDY = ()
"""One measurement."""

LABELLED, CORPORA = "labelled", "corpora"
"""The study's data set with labels; the data sets beside it that tokenizers are compared on."""


class Trials(Section):
    """What all experiments have; trainings themselves do not depend on it."""

    seeds: Annotated[list[SeedNumber], Field(min_length=2)] = [0, 1, 2]
    """Each is a job of its own."""
    confidence: Confidence
    """Of the intervals over seeds."""

    @model_validator(mode="after")
    def _check_seeds(self) -> Trials:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {self.seeds} names one twice")
        return self


class ExperimentFacts(TypedDict):
    """What documents say of an experiment, by attributes of :class:`Experiment`."""

    of: list[str]
    subjects: str


@dataclass(frozen=True)
class Experiment:
    """One kind of experiment.

    Attributes
    ----------
    section
        A size of it in ``params.yaml``: what its trainings depend on, and :class:`Trials`.
    of
        ``MODEL`` or ``STUDY``.
    reads
        Documents that it is trained on: ``LABELLED``, ``CORPORA``.
    on_gpu
        Whether it gains by a GPU, and by several threads; the networks of the others are too small.
    subjects
        Which of the study's models one of ``MODEL`` covers.
    """

    section: type[Trials]
    of: tuple[str, ...]
    reads: tuple[str, ...]
    on_gpu: bool = False
    subjects: str = "finetuned"

    def facts(self) -> ExperimentFacts:
        """What documents say of it."""
        return {"of": list(self.of), "subjects": self.subjects}
