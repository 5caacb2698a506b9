"""The whole of ``params.yaml``: loading, validation across sections, and clear errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from posenc.config.text import unprintable
from posenc.study import references
from posenc.study.definitions import Definitions
from posenc.study.explain import Place, explain, explain_texts, suggestion


class ParamsError(ValueError):
    """``params.yaml`` is wrong; the message names each key, its value and what would be right."""


class Params(Definitions):
    """The only place where experiments are defined."""

    @model_validator(mode="after")
    def _check_references(self) -> Params:
        references.check(self)
        return self


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
