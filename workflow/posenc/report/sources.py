"""Where numbers and tables come from: the measurement file, the run and its command."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.figures.catalogue import TABLES
from posenc.measurements.declaration import CELL, MODEL, RUN, STUDY
from posenc.measurements.results import Results
from posenc.report import quantities as keys

SHORT = {"positions": "position_embeddings", "relative": "relative_attention"}
"""Second part of a key where it is not the name of the measurement."""


@dataclass(frozen=True, order=True)
class Source:
    """One file.

    Attributes
    ----------
    path
        From the project's root.
    run
        What the file is about: model, data set, condition, in this order, as far as they apply; a
        file with all conditions of a model and data set names none.
    """

    path: str
    run: tuple[str, ...]

    @property
    def name(self) -> str:
        """A short name that no other file has."""
        return hashlib.sha256(self.path.encode()).hexdigest()[:10]


def source_of(study: Mapping[str, Any], key: str) -> Source | None:
    """The file that a number was read from.

    Parameters
    ----------
    study
        What data/config/study.json holds.
    key
        Of :func:`posenc.report.quantities.collect`.

    Returns
    -------
    Source or None
        None for constants, for what is computed from several files (``decoders``), and for what a
        study lacks.

    Raises
    ------
    ValueError
        If no measurement has such a key.
    """
    roles = {**keys.model_roles(study), **keys.dataset_roles(study)}
    parts = [roles.get(part, part) for part in key.split(".")]
    if parts[0] in ("constant", "decoders"):
        return None
    found = _place(study, parts)
    if found is None:
        raise ValueError(f"no measurement has the key {key}")
    kind, run = found
    return None if None in run else _source(study, kind, run)


def measurement_of(study: Mapping[str, Any], key: str) -> str | None:
    """The measurement that a key belongs to; None where there is none of this kind."""
    roles = {**keys.model_roles(study), **keys.dataset_roles(study)}
    found = _place(study, [roles.get(part, part) for part in key.split(".")])
    return None if found is None else found[0]


def file_of(study: Mapping[str, Any], measurement: Mapping[str, Any]) -> Source:
    """The file that holds a measurement.

    Parameters
    ----------
    study
        What data/config/study.json holds.
    measurement
        With its ``measurement`` and its ``run``.
    """
    facts, run = study["measurements"][measurement["measurement"]], measurement["run"]
    # A table of positions that is no model's stands in the place of one.
    names = [run.get(part, run.get("matrix")) for part in facts["of"]]
    return _source(study, facts["in"], names)


def sources_of_table(results: Results, table: str) -> list[Source]:
    """The files that a table of the documents is made of, in order, without what was not run.

    Raises
    ------
    KeyError
        If there is no such table; one of published values has a source for each number.
    """
    kinds = TABLES[table].measurements
    measured = [
        one
        for one in results.measurements
        if one["measurement"] in kinds and one["status"] == "measured"
    ]
    return list(dict.fromkeys(file_of(results.study, one) for one in measured))


def _source(study: Mapping[str, Any], kind: str, run: Sequence[str]) -> Source:
    """The file of a kind of measurement, or of a training."""
    parts = ("training", *run, "summary") if kind == "training" else ("measurements", kind, *run)
    path = "/".join(("data/studies", study["study"]["name"], *parts))
    return Source(f"{path}.json", tuple(run))


def is_of(study: Mapping[str, Any], measurement: str | None, of: Sequence[str]) -> bool:
    """Whether the study has a measurement, and a file of it is of this."""
    facts = study["measurements"].get(measurement)
    return facts is not None and facts["of"] == list(of)


def _place(study: Mapping[str, Any], parts: Sequence[str]) -> tuple[str, list[str]] | None:
    """The kind of measurement that holds a key, and the run."""
    first, second = parts[0], parts[1]
    third, fourth = (*parts[2:4], None, None)[:2]
    if first == "matrix":
        return "position_embeddings", [second]
    if is_of(study, first, STUDY):
        return first, []
    if second == "training":
        return "training", [first]
    if is_of(study, kind := SHORT.get(second, second), MODEL):
        return kind, [first]
    if second == "long":
        return "conditions", [first, "long"]
    if second == "masks":
        # The masks of a model are the same in the files of all data sets.
        return "conditions", [first, study["study"]["datasets"][-1]]
    if third is not None and is_of(study, third, STUDY):
        return third, []
    if third is not None and is_of(study, third, CELL):
        return third, [first, second]
    if third is not None and is_of(study, fourth, RUN):
        return fourth, [first, second, third]
    if is_of(study, fourth, CELL):
        return fourth, [first, second]
    return None
