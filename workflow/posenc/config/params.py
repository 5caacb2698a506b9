"""The whole of ``params.yaml``: loading, validation across sections, and clear errors."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from ..documents import FIGURES
from .activations import Activations
from .base import Name, Section
from .conditions import Condition
from .datasets import Dataset
from .experiments import Experiments
from .figures import Figures
from .masks import LearnedMaskSource
from .matrices import Matrix
from .measurements import OPTIONAL, Measurements
from .models import Model, TrainSource
from .studies import Study
from .sweeps import Sweep
from .text import unprintable


class ParamsError(ValueError):
    """``params.yaml`` is wrong; the message names each key, its value and what would be right."""


class Params(Section):
    """The only place where experiments are defined."""

    datasets: dict[Name, Dataset]
    models: dict[Name, Model]
    matrices: dict[Name, Matrix] = Field(default_factory=dict)
    conditions: dict[Name, Condition]
    masks: dict[Name, LearnedMaskSource]
    sweeps: dict[Name, Sweep]
    activations: Activations
    measurements: Measurements
    experiments: Experiments
    figures: Figures
    studies: dict[Name, Study]
    study: Study = Field(description="The active study: an alias of one of `studies`.")

    @model_validator(mode="after")
    def _check_references(self) -> Params:
        """Every name that a study uses is defined; the rest of a study fits what it names."""
        if self.conditions.get("intact") != Condition():
            raise ValueError("conditions.intact must be there, with position: intact")
        self._check_conditions()
        for key, study in {**self.studies, "study": self.study}.items():
            where = "study" if key == "study" else f"studies.{key}"
            if key != "study" and study.name != key:
                raise ValueError(f"{where}.name is {study.name!r}; it must be {key!r}, its key")
            for kind in ("models", "matrices", "datasets", "conditions", "sweeps"):
                _check_known(f"{where}.{kind}", getattr(study, kind), kind, getattr(self, kind))
            _check_known(f"{where}.schemes", study.schemes, "models", self.models)
            _check_known(f"{where}.evaluated", study.evaluated, "conditions", self.conditions)
            self._check_study(where, study)
            for kind in ("trained", "schemes"):
                corpora = getattr(study, kind).values()
                _check_known(f"{where}.{kind}", corpora, "datasets", self.datasets)
            _check_known(f"{where}.corpora", study.corpora, "datasets", self.datasets)
            if study.labelled not in study.datasets:
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
            corpora = {one[model] for one in learned if model in one}
            if len(corpora) > 1:
                raise ValueError(
                    f"the studies train {model!r} on {' and on '.join(sorted(corpora))}: these "
                    f"are two models, give them two names"
                )
        if self.study.name not in self.studies:
            raise ValueError(f"study.name {self.study.name!r} is not one of studies")
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
                if key == "mask" and getattr(source, "terms", True) == []:
                    raise ValueError(f"{where}.mask names the mask {part.mask!r}, without terms")
        for name, sweep in self.sweeps.items():
            _check_known(f"sweeps.{name}.conditions", sweep.conditions, "conditions",
                         self.conditions)  # fmt: skip
            try:
                list(sweep.units(self.conditions))
            except ValidationError as error:
                problem = error.errors()[0]
                raise ValueError(
                    f"sweeps.{name}: {sweep.key} cannot be {problem['input']!r}: {problem['msg']}"
                ) from None
            except ValueError as error:
                raise ValueError(f"sweeps.{name}: {error}") from None

    def _check_experiment(self, where: str, study: Study, kind: str) -> None:
        """A study's experiment is defined, and its data sets are those of the study."""
        name, known = getattr(study.experiments, kind), getattr(self.experiments, kind)
        where = f"{where}.experiments.{kind}"
        _check_known(where, [name], f"experiments.{kind}", known)
        section = known[name]
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
            if self.conditions[name].masks() or self.conditions[name].segments:
                raise ValueError(
                    f"{where}.conditions names {name!r}, which needs a learned mask or segments: "
                    f"list it under {where}.evaluated"
                )
        _check_known(f"{where}.extrapolation.conditions", study.extrapolation.conditions,
                     "conditions", self.conditions)  # fmt: skip
        _check_known(f"{where}.calibration", [study.calibration], "datasets", self.datasets)
        if study.calibration not in study.datasets:
            raise ValueError(
                f"{where}.calibration names {study.calibration!r}, which is not one of its datasets"
            )
        calibration = self.datasets[study.calibration].calibration
        if calibration is None:
            raise ValueError(
                f"{where}.calibration names {study.calibration!r}: give "
                f"datasets.{study.calibration} a calibration"
            )
        for model, dataset in study.trained.items():
            if dataset == study.calibration and self.models[model].source.split == (
                calibration.split
            ):  # fmt: skip
                raise ValueError(
                    f"models.{model} is trained on the split {calibration.split!r} of {dataset}, "
                    f"which masks are calibrated on: choose another"
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
    _check_known(f"{where}.measurements", study.measurements or [], "measurements", known)
    _check_known(f"{where}.figures", study.figures or [], "figures", FIGURES)
    for name in study.figures or []:
        for kind in FIGURES[name][1]:
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
                f"{where} names {name!r}, which is not defined in {kind}{_suggestion(name, known)}"
            )


def _suggestion(word: str, known) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"


def _fields_at(location: tuple) -> list[str]:
    """Names that are allowed in the mapping that holds the last part of an error's location."""
    schema = Params.model_json_schema()
    definitions = schema["$defs"]

    def resolve(node: Any) -> Any:
        while isinstance(node, dict) and "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[1]]
        return node

    node = resolve(schema)
    for part in location[:-1]:
        if part in node.get("properties", {}):
            node = resolve(node["properties"][part])
        elif "discriminator" in node and part in node["discriminator"]["mapping"]:
            node = resolve({"$ref": node["discriminator"]["mapping"][part]})
        elif isinstance(node.get("additionalProperties"), dict):
            node = resolve(node["additionalProperties"])
        elif "patternProperties" in node:  # a mapping of names
            (inner,) = node["patternProperties"].values()
            node = resolve(inner)
        elif "anyOf" in node:
            node = resolve(node["anyOf"][0])
        else:
            return []
    return list(node.get("properties", {}))


def _key(location: tuple, raw: Any) -> str:
    """A dotted key as the user wrote it: tags of unions, which are not keys, are left out."""
    parts, node = [], raw
    location = tuple(part for part in location if not _is_tag(part))
    for index, part in enumerate(location):
        child = None
        if isinstance(node, Mapping):
            child = node.get(part)
            # `source: {kind: url, url: ...}`: the tag may also be the name of a key.
            if index < len(location) - 1 and not isinstance(child, Mapping | list):
                continue
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            child = node[part]
        parts.append(str(part))
        node = child
    return ".".join(parts)


def _is_tag(part: Any) -> bool:
    """Whether a part of a location names an alternative of a union, such as ``literal['zero']``."""
    return isinstance(part, str) and part.endswith("]") and "[" in part[1:]


def _alternatives_left_out(problems: list[dict]) -> list[dict]:
    """Without what a plain word does wrong as a mapping, and a mapping as a plain word."""
    kept = []
    for problem in problems:
        tags = [part for part in problem["loc"] if _is_tag(part)]
        is_word = not isinstance(problem["input"], Mapping)
        is_of_words = problem["type"] == "literal_error" or any(t.startswith("lit") for t in tags)
        if not tags or is_word == is_of_words or len(problem["loc"]) > 1 + problem["loc"].index(
            tags[-1]
        ):  # fmt: skip
            kept.append(problem)
    return kept or problems


def explain(error: ValidationError, raw: Any, source: str = "params.yaml") -> str:
    """Render a validation error: one line for each key, its value, and what would be right."""
    lines, seen = [], set()
    for problem in _alternatives_left_out(error.errors()):
        location, kind = problem["loc"], problem["type"]
        if location and location[-1] == "[key]":
            location = (*location[:-2], location[-2])
        key = _key(location, raw)
        # The active study is an alias: the same mistake is shown once, under studies.
        if location[:1] == ("study",) and any(line.startswith("studies") for line in seen):
            continue
        if kind == "extra_forbidden":
            allowed = _fields_at(location)
            text = f"unknown key {str(location[-1])!r}{_suggestion(str(location[-1]), allowed)}"
        elif kind == "missing":
            text = "is missing; it is required"
        elif kind == "value_error":
            text = problem["msg"].removeprefix("Value error, ")
        else:
            value = repr(problem["input"])
            value = value if len(value) <= 80 else value[:77] + "..."
            message = problem["msg"].replace("Input should", "should")
            text = f"is {value}: {message}"
        seen.add(key)
        lines.append(f"{source}: {key + ': ' if key else ''}{text}")
    return "\n".join(dict.fromkeys(lines))


def validate(raw: Mapping[str, Any], source: str = "params.yaml") -> Params:
    """Validate a parsed ``params.yaml``.

    ``study`` may also be the name of a study (``--config study=real``).

    Raises
    ------
    ParamsError
        With one line for each wrong key.
    """
    raw = dict(raw)
    if isinstance(raw.get("study"), str):
        studies = raw.get("studies") or {}
        if raw["study"] not in studies:
            raise ParamsError(
                f"{source}: study: is {raw['study']!r}, which is not one of studies"
                f"{_suggestion(raw['study'], studies)}"
            )
        raw["study"] = studies[raw["study"]]
    # The active study is an alias of one of the studies.
    wrong = list(unprintable({key: part for key, part in raw.items() if key != "study"}))
    if wrong:
        raise ParamsError("\n".join(f"{source}: {line}" for line in wrong))
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        raise ParamsError(explain(error, raw, source)) from None


def load(path: str | Path = "params.yaml") -> Params:
    """Read and validate ``params.yaml``.

    Raises
    ------
    ParamsError
        If the file is absent, not YAML, or wrong.
    """
    from ruamel.yaml import YAML, YAMLError

    try:
        raw = YAML(typ="safe").load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path}: no such file; run from the project's root") from None
    except YAMLError as error:
        raise ParamsError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        raise ParamsError(f"{path}: must be a mapping of sections")
    return validate(raw, str(path))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of ``params.yaml``, which gives completion and checks in an editor."""
    schema = Params.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "posenc params.yaml",
        **{key: value for key, value in schema.items() if key != "title"},
    }
