"""The sections of ``params.yaml``: all that studies are made of, and the active study."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PrivateAttr, ValidationError, WithJsonSchema

from posenc.capture.section import Activations
from posenc.conditions.masks import LearnedMaskSource
from posenc.conditions.section import Condition
from posenc.conditions.sweeps import Sweep
from posenc.config.base import Name, Section
from posenc.datasets.section import Dataset
from posenc.models.matrices import Matrix
from posenc.models.section import Model
from posenc.study.declared import Experiments, Figures, Measurements
from posenc.study.section import Study

ACTIVE = WithJsonSchema({"type": "string", "description": "The active study: a key of `studies`."})
"""In the file it is a name, so that ``dvc exp run -S study=NAME`` can write it."""


class Definitions(Section):
    """All that studies are made of, by name, and the active study."""

    authors: Annotated[list[str], Field(min_length=1)]
    """Of the documents, in order."""
    datasets: dict[Name, Dataset]
    """Where text comes from and how it is cleaned, by name."""
    models: dict[Name, Model]
    """Where weights come from, or how a model is trained here, by name."""
    matrices: dict[Name, Matrix] = Field(default_factory=dict)
    """Tables of position embeddings that are of no model, by name."""
    conditions: dict[Name, Condition]
    """What is done to a model before it reads, by name."""
    masks: dict[Name, LearnedMaskSource] = Field(default_factory=dict)
    """What is learned from calibration text, the model frozen, by name."""
    sweeps: dict[Name, Sweep] = Field(default_factory=dict)
    """Conditions with one parameter varied, by name."""
    activations: Activations = Field(default_factory=Activations)
    """What is kept on disk of a run, and how."""
    measurements: Measurements
    """Sizes and choices of each measurement."""
    experiments: Experiments = Field(default_factory=Experiments)
    """What is trained to answer a question: named sizes of each kind."""
    figures: Figures = Field(default_factory=Figures)
    """Colours, labels, and the size of each figure."""
    studies: dict[Name, Study]
    """Which of all these are run together, by name."""
    study: Annotated[Study, ACTIVE]
    """The active study, of which the file has the name."""
    _about: dict[tuple[str, ...], str] = PrivateAttr(default_factory=dict)

    @property
    def about(self) -> dict[str, str]:
        """What each condition does, in a sentence, by name. No measurement reads it."""
        return {key[-1]: said for key, said in self._about.items() if key[0] == "conditions"}

    def parameters_of(self, study: Study) -> Measurements:
        """The ``measurements`` section with what a study changes.

        Raises
        ------
        ValueError
            If a value does not fit the others of its measurement.
        """
        sections = {}
        for name, changes in study.parameters.model_dump(exclude_unset=True).items():
            section = getattr(self.measurements, name)
            try:
                sections[name] = type(section).model_validate({**section.model_dump(), **changes})
            except ValidationError as error:
                problem = error.errors()[0]
                at = ["studies", study.name, "parameters", name, *map(str, problem["loc"])]
                said = problem["msg"].removeprefix("Value error, ")
                raise ValueError(f"{'.'.join(at)}: {said}") from None
        return self.measurements.model_copy(update=sections)

    @property
    def parameters(self) -> Measurements:
        """Those of the measurements of the active study."""
        return self.parameters_of(self.study)
