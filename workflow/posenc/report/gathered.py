"""What is typeset, read from its files: measurements, verifications, and what others published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from posenc.architectures.table import VERIFICATION
from posenc.artifacts.files import ArtifactError, read_json, read_sealed, unbundled
from posenc.report.records import LONG, Published, Results


def read(study: Path, published: Path, versions: Path, inputs: list[Path]) -> Results:
    """Read all that is typeset: the study's facts, and what :func:`gather` reads."""
    return gather(read_json(study), published, versions, inputs)


def gather(
    facts: Mapping[str, Any], published: Path, versions: Path, inputs: list[Path]
) -> Results:
    """Read the measurements of a study, the verifications of its models, and what others found.

    Parameters
    ----------
    facts
        What ``study.json`` holds.
    published, versions, inputs
        Files: published numbers, what versions of the library did with a mask, measurements.

    Raises
    ------
    ArtifactError
        If a file is not a measurement of the study, or the published numbers are not YAML.
    """
    study_of, kinds = facts["study"], list(facts["measurements"])
    measurements, trainings, verifications = [], [], {}
    for path in inputs:
        if path.name == VERIFICATION:
            verifications[path.parent.name] = read_json(path)
            continue
        # The loss curve is a figure's; it lies beside the summary that is read here.
        if path.suffix == ".csv":
            continue
        value = read_sealed(path)
        kind = value.get("measurement")
        if kind == "training":
            trainings.append({**value, "file": str(path)})
        elif kind in kinds:
            measurements += [{**run, "file": str(path)} for run in unbundled(value)]
        else:
            raise ArtifactError(f"{path} is not a measurement of the study; delete it and rerun")
    order = {
        "matrix": ["", *study_of["matrices"]],  # after what belongs to a model
        "models": [*study_of["models"], *study_of["schemes"]],
        "datasets": [*study_of["datasets"], LONG],
        "conditions": study_of["conditions"],
    }
    # In order of presentation, however the inputs were listed.
    for measurement in measurements:
        for kind, names in order.items():
            if measurement["run"].get(kind.removesuffix("s"), names[0]) not in names:
                raise ArtifactError(
                    f"{measurement['run']} is not a run of the study {study_of['name']!r}"
                )
    measurements.sort(
        key=lambda measurement: (
            [
                names.index(measurement["run"].get(kind.removesuffix("s"), names[0]))
                for kind, names in order.items()
            ]
            + [kinds.index(measurement["measurement"])]
        )
    )
    trainings.sort(key=lambda training: order["models"].index(training["model"]))
    published_values = read_published(published)
    return Results(
        facts, measurements, trainings, published_values, read_json(versions), verifications
    )


def read_published(path: Path) -> Published:
    """Read the published numbers.

    Raises
    ------
    ArtifactError
        If the file is not YAML, or a value is not a number, or not quoted: YAML would drop its last
        zeros.
    """
    try:
        published: Published = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except YAMLError as error:
        raise ArtifactError(f"{path} is not valid YAML: {error}") from error
    for key, value in published["values"].items():
        if not isinstance(value["value"], str):
            raise ArtifactError(f"{path}: values.{key}.value needs quotation marks")
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value["value"]):
            raise ArtifactError(
                f"{path}: values.{key}.value is {value['value']!r}: write digits and a point"
            )
    return published
