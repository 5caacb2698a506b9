"""The whole of ``params.yaml``: loading, validation across sections, and clear errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr, ValidationError, WithJsonSchema, model_validator

from posenc.capture.section import Activations
from posenc.conditions.masks import LearnedMaskSource, beneath
from posenc.conditions.section import Condition
from posenc.conditions.semantics import semantics
from posenc.conditions.sweeps import Sweep
from posenc.config.base import Name, Section
from posenc.config.labels import display, labelled
from posenc.config.text import unprintable
from posenc.datasets.section import Dataset
from posenc.figures.catalogue import FIGURES
from posenc.models.matrices import Matrix
from posenc.models.section import Model, TrainSource
from posenc.study.declared import ALWAYS, OPTIONAL, Experiments, Figures, Measurements
from posenc.study.explain import Place, explain, explain_texts, shown, suggestion
from posenc.study.names import RESERVED, check_names
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
        """Every name that a study uses is defined; the rest of a study fits what it names."""
        for kind in RESERVED:
            check_names(kind, getattr(self, kind))
        if self.conditions.get("intact") != Condition():
            raise ValueError("conditions.intact must be there, with position: intact")
        self._check_conditions()
        self._check_labels()
        for key, study in self.studies.items():
            where = f"studies.{key}"
            if study.name != key:
                raise ValueError(f"{where}.name is {study.name!r}; it must be {key!r}, its key")
            for kind in ("models", "matrices", "datasets", "conditions", "sweeps"):
                _check_known(f"{where}.{kind}", getattr(study, kind), kind, getattr(self, kind))
            _check_known(f"{where}.schemes", study.schemes, "models", self.models)
            _check_known(f"{where}.evaluated", study.evaluated, "conditions", self.conditions)
            for name, own in study.evaluations.items():
                at = f"{where}.evaluations.{name}"
                _check_known(f"{at}.evaluated", own.evaluated, "conditions", self.conditions)
                _check_known(f"{at}.sweeps", own.sweeps, "sweeps", self.sweeps)
            self._check_study(where, study)
            for kind in ("trained", "schemes"):
                corpora = getattr(study, kind).values()
                _check_known(f"{where}.{kind}", corpora, "datasets", self.datasets)
            _check_known(f"{where}.corpora", study.corpora, "datasets", self.datasets)
            if study.labelled is not None and study.labelled not in study.datasets:
                raise ValueError(
                    f"{where}.labelled is {study.labelled!r}, which must be one of its datasets"
                )
            for kind in study.experiments.kinds:
                self._check_experiment(where, study, kind)
            _check_choices(where, study)
            for name in study.schemes:
                if not isinstance(self.models[name].source, TrainSource):
                    raise ValueError(
                        f"{where}.schemes names {name!r}, whose source.kind is "
                        f"{self.models[name].source.kind!r}: it must be 'train'"
                    )
            for name in study.models:
                is_trained = isinstance(self.models[name].source, TrainSource)
                if is_trained and name not in study.trained:
                    raise ValueError(
                        f"{where}.pretrained names {name!r}, whose source.kind is 'train': "
                        f"list it under {where}.trained with its data set"
                    )
                if not is_trained and name in study.trained:
                    raise ValueError(
                        f"{where}.trained names {name!r}, whose source.kind is "
                        f"{self.models[name].source.kind!r}: list it under {where}.pretrained"
                    )
                _check_scheme(where, name, self.models[name])
            for model, dataset in {**study.trained, **study.schemes}.items():
                source, data = self.models[model].source, self.datasets[dataset]
                if source.split not in data.splits:
                    raise ValueError(
                        f"models.{model}.source.split is {source.split!r}, which "
                        f"datasets.{dataset} does not have ({', '.join(data.splits)})"
                    )
                if source.split == data.evaluation.split:
                    raise ValueError(
                        f"models.{model} would be trained on the split {source.split!r} of "
                        f"{dataset}, which is its evaluation split: choose another"
                    )
        for model in self.models:
            learned = [{**s.trained, **s.schemes} for s in self.studies.values()]
            corpora = {trained[model] for trained in learned if model in trained}
            if len(corpora) > 1:
                raise ValueError(
                    f"the studies train {model!r} on {' and on '.join(sorted(corpora))}: these "
                    f"are two models, give them two names"
                )
        return self

    def _check_conditions(self) -> None:
        """Conditions name masks that are there and that give what they are asked for."""
        for name, condition in self.conditions.items():
            where = f"conditions.{name}"
            _check_known(where, condition.masks(), "masks", self.masks)
            for part, key in ((condition.position, "position"), (condition.mask, "mask")):
                part = getattr(part, "profile", part)
                if getattr(part, "kind", None) != "learned":
                    continue
                source = self.masks[part.mask]
                if key == "position" and not getattr(source, "learn_position", False):
                    raise ValueError(
                        f"{where}.position names the mask {part.mask!r}, which learns no position: "
                        f"take one with method: fitted and learn_position: true"
                    )
                if key == "position" and part.added != source.adds:
                    how = "added to the embeddings" if source.adds else "in place of the embeddings"
                    raise ValueError(
                        f"{where}.position.added is {str(part.added).lower()}, but the vectors of "
                        f"the mask {part.mask!r} were learned {how}: write added: "
                        f"{str(source.adds).lower()}, or name another mask"
                    )
                if key == "mask" and getattr(source, "terms", True) == []:
                    raise ValueError(f"{where}.mask names the mask {part.mask!r}, without terms")
        self._check_named_conditions("measurements", self.measurements)
        for name in self.masks:
            beneath(self.masks, name)
        for name, sweep in self.sweeps.items():
            _check_known(
                f"sweeps.{name}.conditions", sweep.conditions, "conditions", self.conditions
            )
            try:
                list(sweep.units(self.conditions))
            except ValidationError as error:
                problem = error.errors()[0]
                raise ValueError(
                    f"sweeps.{name}: {sweep.key} cannot be {shown(problem['input'])}: "
                    f"{problem['msg'].replace('Input should', 'it should')}"
                ) from None
            except ValueError as error:
                raise ValueError(f"sweeps.{name}: {error}") from None

    def _check_named_conditions(self, where: str, measurements: Measurements) -> None:
        """Measurements that name conditions name some that are there."""
        for name, section in measurements:
            if isinstance(named := getattr(section, "conditions", None), list):
                _check_known(f"{where}.{name}.conditions", named, "conditions", self.conditions)
        for name, controls in measurements.conditions.controls.items():
            _check_known(f"{where}.conditions.controls",
                         [name, *controls.model_dump().values()], "conditions",
                         self.conditions)  # fmt: skip

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

    def _check_labels(self) -> None:
        """A label is of something that is defined, and no two of a kind are shown alike."""
        labels, where = self.figures.style.labels, "figures.style.labels"
        kinds: dict[str, Iterable[str]] = {
            kind: getattr(self, kind) for kind in ("conditions", "models", "datasets", "matrices")
        }
        kinds["semantics"] = semantics.functions
        _check_known(where, labels, " or ".join(kinds), {n: n for k in kinds.values() for n in k})
        with labelled(labels):
            for kind, names in kinds.items():
                seen: dict[str, str] = {}
                for name in names:
                    other = seen.setdefault(display(name), name)
                    if other != name:
                        raise ValueError(
                            f"{where}.{name if name in labels else other}: the {kind} {other} and "
                            f"{name} are both shown as {display(name)!r}: give one another label"
                        )

    def _check_experiment(self, where: str, study: Study, kind: str) -> None:
        """A study's experiment is defined, and its data sets are those of the study."""
        name, known = getattr(study.experiments, kind), getattr(self.experiments, kind)
        where = f"{where}.experiments.{kind}"
        _check_known(where, [name], f"experiments.{kind}", known)
        section = known[name]
        if study.labelled is None and (hasattr(section, "datasets") or hasattr(section, "dataset")):
            raise ValueError(
                f"{where} is {name!r}, which learns from the study's labelled data set: name it "
                f"under labelled"
            )
        if hasattr(section, "datasets") and section.datasets != [study.labelled, *study.corpora]:
            raise ValueError(
                f"{where} is {name!r}, whose datasets are {section.datasets}: they must be "
                f"labelled and corpora of the study, {[study.labelled, *study.corpora]}"
            )
        if not hasattr(section, "dataset"):
            return
        if section.dataset != study.labelled:
            raise ValueError(
                f"{where} is {name!r}, whose dataset is {section.dataset!r}: it must be "
                f"labelled of the study, {study.labelled!r}"
            )
        if self.datasets[section.dataset].format != "imdb":
            raise ValueError(
                f"experiments.{kind}.{name}.dataset is {section.dataset!r}, which has no labels: "
                f"take one whose format is imdb"
            )

    def _check_study(self, where: str, study: Study) -> None:
        """What a study evaluates can be calibrated, and what it keeps needs no learned mask."""
        for name in study.conditions:
            condition = self.conditions[name]
            if condition.masks() or condition.segments or condition.of_pairs:
                raise ValueError(
                    f"{where}.conditions names {name!r}, which needs a learned mask, segments, or "
                    f"other rotation for some pairs: list it under {where}.evaluated"
                )
        measurements = self.parameters_of(study)
        self._check_named_conditions(f"{where}.parameters", measurements)
        models = [self.models[name] for name in study.models if name in self.models]
        for name in study.all_conditions:
            reasons = [self.conditions[name].misfit(model.positions) for model in models]
            if models and all(reasons):
                raise ValueError(
                    f"{where} names the condition {name!r}, which is for none of its models: "
                    f"{reasons[0]}"
                )
        beyond = [] if study.extrapolation is None else study.extrapolation.conditions
        _check_known(f"{where}.extrapolation.conditions", beyond, "conditions", self.conditions)
        if study.calibration is None:
            if study.refitted:
                raise ValueError(
                    f"{where}.refitted names {study.refitted[0]!r}, whose masks are fitted to "
                    f"calibration text: name a data set with some under {where}.calibration"
                )
            if study.retrained:
                raise ValueError(
                    f"{where}.retrained names {study.retrained[0]!r}, which is trained on another "
                    f"split of the data set of calibration text: name one under "
                    f"{where}.calibration"
                )
            for name in study.all_conditions:
                if self.conditions[name].masks():
                    raise ValueError(
                        f"{where} names the condition {name!r}, whose mask is learned from "
                        f"calibration text: name a data set with some under {where}.calibration"
                    )
            for name in study.all_sweeps:
                for swept in self.sweeps[name].conditions:
                    if self.conditions[swept].masks():
                        raise ValueError(
                            f"{where}.sweeps names {name!r}, whose condition {swept!r} has a mask "
                            f"that is learned from calibration text: name a data set with some "
                            f"under {where}.calibration"
                        )
            return
        _check_known(f"{where}.calibration", [study.calibration], "datasets", self.datasets)
        calibration = self.datasets[study.calibration].calibration
        if calibration is None:
            raise ValueError(
                f"{where}.calibration names {study.calibration!r}: give "
                f"datasets.{study.calibration} a calibration"
            )
        for model, dataset in study.trained.items():
            if dataset == study.calibration and self.models[model].source.split == (
                calibration.split
            ):
                raise ValueError(
                    f"models.{model} is trained on the split {calibration.split!r} of {dataset}, "
                    f"which masks are calibrated on: choose another"
                )
        split = measurements.retraining.split
        if study.retrained and calibration.split == split:
            raise ValueError(
                f"measurements.retraining.split is {split!r}, which masks are calibrated on in "
                f"{where}: choose another"
            )
        split = measurements.refits.split
        for model in study.refitted:
            if study.trained.get(model) == study.calibration and (
                self.models[model].source.split == split
            ):
                raise ValueError(
                    f"measurements.refits.split is {split!r}, which models.{model} is trained on "
                    f"in {where}: choose another"
                )


def _check_scheme(where: str, name: str, model: Model) -> None:
    positions = getattr(model.source, "positions", "learned")
    if positions != "learned":
        raise ValueError(
            f"{where}.models names {name!r}, whose source.positions is {positions!r}: conditions "
            f"edit learned positions; list it under {where}.schemes"
        )


def _check_choices(where: str, study: Study) -> None:
    """The measurements and figures that a study names are there, and the figures can be drawn."""
    known = dict.fromkeys(OPTIONAL)
    for name in study.measurements or []:
        if name in ALWAYS:
            raise ValueError(f"{where}.measurements names {name!r}, which is always made: omit it")
    _check_known(f"{where}.measurements", study.measurements or [], "measurements", known)
    _check_known(f"{where}.figures", study.figures or [], "figures", FIGURES)
    for name in study.figures or []:
        if name == "extrapolation" and study.extrapolation is None:
            raise ValueError(
                f"{where}.figures names {name!r}, which shows texts longer than a model was "
                f"trained on: add {where}.extrapolation"
            )
        for kind in FIGURES[name].measurements:
            if kind not in study.measured:
                part = "measurements" if kind in OPTIONAL else "experiments"
                raise ValueError(
                    f"{where}.figures names {name!r}, which shows {kind!r}: "
                    f"add {kind} to {where}.{part}"
                )


def _check_known(where: str, names, kind: str, known: Mapping) -> None:
    for name in names:
        if name not in known:
            raise ValueError(
                f"{where} names {name!r}, which is not defined in {kind}{suggestion(name, known)}"
            )


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
