"""The whole of ``params.yaml``: loading, validation across sections, and clear errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr, ValidationError, WithJsonSchema, model_validator

from posenc.capture.section import Activations
from posenc.conditions.masks import LearnedMaskSource
from posenc.conditions.section import Condition
from posenc.conditions.sweeps import Sweep
from posenc.config.base import Name, Section
from posenc.config.text import unprintable
from posenc.datasets.section import Dataset
from posenc.models.matrices import Matrix
from posenc.models.section import Model
from posenc.study import references
from posenc.study.declared import Experiments, Figures, Measurements
from posenc.study.explain import Place, explain, explain_texts, suggestion
from posenc.study.section import Study


class ParamsError(ValueError):
    """``params.yaml`` is wrong; the message names each key, its value and what would be right."""


ACTIVE = WithJsonSchema({"type": "string", "description": "The active study: a key of `studies`."})
"""In the file it is a name, so that ``dvc exp run -S study=NAME`` can write it."""


class Params(Section):
    """The only place where experiments are defined."""

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

    @model_validator(mode="after")
    def _check_references(self) -> Params:
        references.check(self)
        return self

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


def _active(name: Any, studies: Mapping[str, Any], at: str | None) -> Any:
    """The study of this name; ``at`` is the line of the file that names it, if it does."""
    if isinstance(name, str) and name in studies:
        return studies[name]
    if isinstance(name, str):
        of_file = f"{at}: study: is {name!r}, which is not one of studies"
        what = of_file if at else f"there is no study {name!r}"
        raise ParamsError(f"{what}{suggestion(name, studies)}")
    meant = name.get("name") if isinstance(name, dict) else None
    meant = meant or next((key for key, study in studies.items() if study == name), "NAME")
    raise ParamsError(f"{at}: study: is no name: write it alone, as in `study: {meant}`")


def validate(
    raw: Mapping[str, Any],
    source: str = "params.yaml",
    place: Place | None = None,
    study: str | None = None,
) -> Params:
    """Validate a parsed ``params.yaml``.

    Parameters
    ----------
    raw
        Its content.
    source
        Its name, for messages.
    place
        Gives file and line of a key, where they are known.
    study
        The active study, in place of the one that the file names.

    Raises
    ------
    ParamsError
        With one line for each mistake.
    """
    raw = dict(raw)
    if wrong := explain_texts(unprintable(raw), source, place):
        raise ParamsError("\n".join(wrong))
    if isinstance(raw.get("studies"), Mapping):
        raw["studies"] = {
            key: {"name": key, **part} if isinstance(part, Mapping) else part
            for key, part in raw["studies"].items()
        }
        if study is not None:
            raw["study"] = _active(study, raw["studies"], None)
        elif "study" in raw:
            at = source if place is None else place(("study",))[0]
            raw["study"] = _active(raw["study"], raw["studies"], at)
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        lines = explain(error, raw, Params.model_json_schema, source, place)
        raise ParamsError("\n".join(lines)) from None


def load(path: str | Path = "params.yaml", config: Mapping[str, Any] | None = None) -> Params:
    """Read and validate ``params.yaml``: the one reader of ``posenc``, Snakemake and DVC's stages.

    Parameters
    ----------
    path
        The file.
    config
        What Snakemake was given as ``--config``: nothing, or ``study``, the name of a study.

    Raises
    ------
    ParamsError
        If the file is absent, has two meanings, or is wrong; each line names a place and a way out.
    """
    from posenc.config.yaml_file import YamlError
    from posenc.study.layers import LayerError, Layers

    for key in config or {}:
        if key != "study":
            raise ParamsError(f"--config: {key}: only study=NAME is taken; edit {path} instead")
    try:
        layers = Layers(Path(path))
    except (YamlError, LayerError) as error:
        raise ParamsError(str(error)) from None
    if not isinstance(layers.value, dict):
        raise ParamsError(f"{path}: must be a mapping of sections")
    study = str(config["study"]) if config else None
    params = validate(layers.value, str(path), layers.place, study)
    params._about.update(layers.about)
    return params
