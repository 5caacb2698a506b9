"""What all measurements of runs share: one job a model, a file a run, current ones kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import typer
from pydantic import BaseModel

from posenc.artifacts.command import read_section
from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    sha256_file,
    write_sealed,
)
from posenc.artifacts.provenance import code_digest, versions
from posenc.config.base import Name, Section
from posenc.measurements.declaration import Measurement
from posenc.store.activations import INDEX, ActivationStore, check_pair

P = TypeVar("P", bound=BaseModel)


class Job(Section, Generic[P]):
    """What the measurement of one model's runs depends on, beside their stores."""

    parameters: P
    datasets: list[Name]
    conditions: list[Name]


def command(
    measurement: str,
    declared: Measurement,
    measure: Callable[[P, ActivationStore, ActivationStore], dict[str, Any]],
    files: Collection[str] | None = None,
    uses: Sequence[str] = (),
) -> Callable[..., None]:
    """Make a measurement's command line.

    Parameters
    ----------
    measurement
        Its name, which is also its module in ``posenc.measurements``.
    declared
        What it says of itself.
    measure
        ``measure(parameters, intact, condition)``; what it returns is written, with its
        provenance.
    files
        Which files of a store it reads, None for all: those are verified.
    uses
        Packages beside NumPy whose versions a result depends on.

    Returns
    -------
    callable
        For ``posenc.artifacts.command.run``.
    """

    def main(
        config: Annotated[Path, typer.Option(help="data/config/MEASUREMENT/MODEL.json")],
        activations: Annotated[Path, typer.Option(help="folder of the model's stores")],
        output: Annotated[Path, typer.Option(help="folder of its measurements")],
    ) -> None:
        job = read_section(config, Job[declared.parameters])  # type: ignore[name-defined]
        code = code_digest(f"posenc.measurements.{measurement}")
        for dataset in job.datasets:
            intact_folder, opened = activations / dataset / job.conditions[0], None
            kept, runs = Kept(output, dataset, declared.bundled), []
            for condition in job.conditions:
                folder = activations / dataset / condition
                provenance = {
                    "parameters": job.parameters.model_dump(),
                    "inputs": {
                        "intact": digest_of(intact_folder),
                        "condition": digest_of(folder),
                    },
                    "versions": versions("numpy", *uses),
                    "code": code,
                }
                current = kept.current(condition, provenance)
                if current is not None:
                    print(f"{kept.place(condition)} is current and is kept", file=sys.stderr)
                    runs.append(current)
                    continue
                # The intact store is read, and verified, once for all conditions.
                opened = opened or ActivationStore(intact_folder, files)
                store = opened if folder == intact_folder else ActivationStore(folder, files)
                check_pair(opened, store)
                measured = measure(job.parameters, opened, store)
                precision = store.metadata["precision"]
                runs.append({**measured, "precision": precision, "provenance": provenance})
                kept.write(condition, runs)
            if runs:
                kept.finish(runs)

    main.__doc__ = (sys.modules[measure.__module__].__doc__ or "").split("\n")[0]
    return main


def seal(
    path: Path,
    measurement: str,
    declared: Measurement,
    run: dict[str, str],
    measured: dict[str, Any],
    parameters: Section,
    inputs: dict[str, Any],
    uses: Sequence[str],
) -> None:
    """Write the measurement of one run with its provenance.

    Parameters
    ----------
    path
        The file.
    measurement
        Its name, which is also its module in ``posenc.measurements``.
    declared
        What it says of itself.
    run
        What it is of: model, data set, condition, as far as they apply.
    measured
        The results; a ``status`` other than ``measured`` comes with its ``reason``.
    parameters
        Its section of params.yaml.
    inputs
        Checksums of what it was made of, by name.
    uses
        Packages whose versions the results depend on.
    """
    write_sealed(
        path,
        {
            "schema": declared.schema,
            "measurement": measurement,
            "catalogue": list(declared.catalogue),
            "run": run,
            "status": "measured",
            "reason": None,
            **measured,
            "provenance": {
                "parameters": parameters.model_dump(),
                "inputs": inputs,
                "versions": versions(*uses),
                "code": code_digest(f"posenc.measurements.{measurement}"),
            },
        },
    )


class Kept:
    """The measurements of one model and data set on disk: a file a run, or one for all runs.

    Parameters
    ----------
    output
        Folder of the model's measurements.
    dataset
        Name of the data set.
    bundled
        Whether one file holds all runs: ``{"run": ..., "runs": [...]}``.
    """

    def __init__(self, output: Path, dataset: str, bundled: bool) -> None:
        self._folder, self._file = output / dataset, output / f"{dataset}.json"
        self._bundled = bundled
        self._found = self._read(self._file).get("runs", []) if bundled else []

    def place(self, condition: str) -> str:
        """Where the measurement of a run is."""
        return f"{self._file}:{condition}" if self._bundled else str(self._path(condition))

    def current(self, condition: str, provenance: dict[str, Any]) -> dict[str, Any] | None:
        """The measurement of a run, if it is there, whole, and made of the same."""
        found = [one for one in self._found if one["run"]["condition"] == condition]
        if not self._bundled:
            found = [self._read(self._path(condition))]
        same = [one for one in found if one.get("provenance") == provenance]
        return same[0] if same else None

    def write(self, condition: str, runs: list[dict[str, Any]]) -> None:
        """Keep the last run that was measured, so that a killed job goes on after it."""
        if not self._bundled:
            write_sealed(self._path(condition), runs[-1])
            return
        done = {one["run"]["condition"] for one in runs}
        others = [one for one in self._found if one["run"]["condition"] not in done]
        self._seal([*runs, *others])

    def finish(self, runs: list[dict[str, Any]]) -> None:
        """Leave nothing in the file but the runs that there are."""
        if self._bundled and self._read(self._file).get("runs") != runs:
            self._seal(runs)

    def _path(self, condition: str) -> Path:
        return self._folder / f"{condition}.json"

    def _seal(self, runs: list[dict[str, Any]]) -> None:
        names = {key: runs[0]["run"][key] for key in ("model", "dataset")}
        write_sealed(
            self._file, {"measurement": runs[0]["measurement"], "run": names, "runs": runs}
        )

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        try:
            return read_sealed(path) if path.exists() else {}
        except ArtifactError as error:
            print(f"{error}; it is measured again", file=sys.stderr)
            return {}


def digest_of(folder: Path) -> str:
    """SHA-256 of a store's index, which holds the checksums of its shards.

    Raises
    ------
    ArtifactError
        If there is no store.
    """
    if not (folder / INDEX).exists():
        raise ArtifactError(f"{folder} is not captured; start the workflow again")
    return sha256_file(folder / INDEX)
