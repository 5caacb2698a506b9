"""Where numbers and tables come from: the measurement file, the run and its command."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.figures.catalogue import TABLES
from posenc.measurements.declaration import MODEL
from posenc.report.records import Results


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


def sources(results: Results) -> dict[str, Source]:
    """The files of all measurements and trainings, by path."""
    found = {}
    for one in (*results.measurements, *results.trainings):
        run = one.get("run", one)  # a summary of a training names its model itself
        of = results.study["measurements"].get(one["measurement"], {"of": MODEL})["of"]
        # A table of positions that is no model's stands in the place of one.
        names = tuple(run.get(part, run.get("matrix")) for part in of)
        found[one["file"]] = Source(one["file"], names)
    return found


def sources_of_table(results: Results, table: str) -> list[Source]:
    """The files that a table of the documents is made of, in order, without what was not run.

    Raises
    ------
    KeyError
        If there is no such table; one of published values has a source for each number.
    """
    kinds, files = TABLES[table].measurements, sources(results)
    measured = [
        one["file"]
        for one in results.measurements
        if one["measurement"] in kinds and one["status"] == "measured"
    ]
    return [files[path] for path in dict.fromkeys(measured)]


def weights_of(study: Mapping[str, Any], model: str) -> str:
    """What published values call a model's weights, or a table of positions, by; or nothing."""
    if model in study["matrices"]:
        return f"matrix.{model}"
    source = study["models"].get(model, {"source": {"kind": None}})["source"]
    return source["id"] if source["kind"] == "hub" else ""
