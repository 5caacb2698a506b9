"""The whole of ``params.yaml``: loading, validation across sections, and clear errors."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from .activations import Activations
from .base import Name, Section
from .conditions import Condition
from .datasets import Dataset
from .figures import Figures
from .measurements import Measurements
from .models import Model, TrainSource
from .studies import Study


class ParamsError(ValueError):
    """``params.yaml`` is wrong; the message names each key, its value and what would be right."""


class Params(Section):
    """The only place where experiments are defined."""

    datasets: dict[Name, Dataset]
    models: dict[Name, Model]
    conditions: dict[Name, Condition]
    activations: Activations
    measurements: Measurements
    figures: Figures
    studies: dict[Name, Study]
    study: Study = Field(description="The active study: an alias of one of `studies`.")

    @model_validator(mode="after")
    def _check_references(self) -> Params:
        """Every name that a study uses is defined; the rest of a study fits what it names."""
        if self.conditions.get("intact") != Condition(position="intact"):
            raise ValueError("conditions.intact must be there, with position: intact")
        for key, study in {**self.studies, "study": self.study}.items():
            where = "study" if key == "study" else f"studies.{key}"
            if key != "study" and study.name != key:
                raise ValueError(f"{where}.name is {study.name!r}; it must be {key!r}, its key")
            for kind in ("models", "datasets", "conditions"):
                _check_known(f"{where}.{kind}", getattr(study, kind), kind, getattr(self, kind))
            _check_known(f"{where}.trained", study.trained.values(), "datasets", self.datasets)
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
            for model, dataset in study.trained.items():
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
            corpora = {s.trained[model] for s in self.studies.values() if model in s.trained}
            if len(corpora) > 1:
                raise ValueError(
                    f"the studies train {model!r} on {' and on '.join(sorted(corpora))}: these "
                    f"are two models, give them two names"
                )
        if self.study.name not in self.studies:
            raise ValueError(f"study.name {self.study.name!r} is not one of studies")
        return self


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
        elif "anyOf" in node:
            node = resolve(node["anyOf"][0])
        else:
            return []
    return list(node.get("properties", {}))


def _key(location: tuple, raw: Any) -> str:
    """A dotted key as the user wrote it: tags of unions, which are not keys, are left out."""
    parts, node = [], raw
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


def explain(error: ValidationError, raw: Any, source: str = "params.yaml") -> str:
    """Render a validation error: one line for each key, its value, and what would be right."""
    lines, seen = [], set()
    for problem in error.errors():
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
