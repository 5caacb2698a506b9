"""What all measurements share: the form of their results, command lines, runs that are kept.

Measurements of a model's weights and tokens have more in common: ``of_models``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Generic, TypeAlias, TypedDict, TypeVar

import typer
from pydantic import BaseModel

from posenc.architectures.needs import NotKnown
from posenc.architectures.table import VERIFICATION
from posenc.artifacts.activations import INDEX, ActivationStore, check_pair
from posenc.artifacts.command import read_section
from posenc.artifacts.files import (
    ArtifactError,
    read_json,
    read_sealed,
    sha256_file,
    write_sealed,
)
from posenc.artifacts.provenance import Inputs, Provenance, code_digest, versions
from posenc.artifacts.results import NotMeasured, Result
from posenc.config.base import Name, Section
from posenc.measurements.declaration import Measurement

P = TypeVar("P", bound=BaseModel)
Run: TypeAlias = Mapping[str, Any]
"""What a file holds of one run: ``ENVELOPE`` of :mod:`posenc.artifacts.results`, and a result."""

Config = Annotated[Path, typer.Option(help="its part of params.yaml, a file in data/config")]
Stores = Annotated[Path, typer.Option(help="folder of the model's stores of activations")]
Output = Annotated[Path, typer.Option(help="the measurement, or the folder of the model's")]


class StudyJob(Section, Generic[P]):
    """What a measurement of the study depends on."""

    parameters: P


class Job(StudyJob[P], Generic[P]):
    """What the measurement of one model's runs depends on, besides their stores."""

    datasets: list[Name]
    conditions: list[Name]


def command(
    declared: Measurement,
    measure: Callable[[P, ActivationStore, ActivationStore], Result | NotMeasured],
    files: Collection[str] | None = None,
) -> Callable[..., None]:
    """Make the command line of a measurement of runs.

    Parameters
    ----------
    declared
        Its declaration.
    measure
        ``measure(parameters, intact, condition)``.
    files
        Which files of a store it reads, None for all: only those are verified.

    Returns
    -------
    callable
        For ``posenc.artifacts.command.run``.
    """

    def main(config: Config, activations: Stores, output: Output) -> None:
        job = read_section(config, Job[declared.parameters])  # type: ignore[name-defined]
        measure_runs(declared, job, measure, activations, output, files)

    return documented(main, measure)


def measure_runs(
    declared: Measurement,
    job: Job[P],
    measure: Callable[[P, ActivationStore, ActivationStore], Result | NotMeasured],
    activations: Path,
    output: Path,
    files: Collection[str] | None = None,
    beside: dict[str, str] | None = None,
) -> None:
    """Measure the runs whose measurement is not current.

    Parameters
    ----------
    declared, measure, files
        As :func:`command`.
    job
        What to measure.
    activations, output
        Folders of the model's stores and of its measurements.
    beside
        Checksums of what is read besides stores, by name.
    """
    for dataset in job.datasets:
        intact_folder, opened = activations / dataset / job.conditions[0], None
        kept, runs = Kept(output, dataset, declared.bundled), []
        for condition in job.conditions:
            folder = activations / dataset / condition
            stores = {"intact": digest_of(intact_folder), "condition": digest_of(folder)}
            made_by = provenance(declared, job.parameters, {**stores, **(beside or {})})
            current = kept.current(condition, made_by)
            if current is not None:
                print(f"{kept.place(condition)} is current and is kept", file=sys.stderr)
                runs.append(current)
                continue
            # The intact store is read, and verified, once for all conditions.
            opened = opened or ActivationStore(intact_folder, files)
            store = opened if folder == intact_folder else ActivationStore(folder, files)
            check_pair(opened, store)
            measured = measure(job.parameters, opened, store)
            runs.append(
                {
                    **result(declared, store.metadata["run"], measured),
                    "precision": store.metadata["precision"],
                    "provenance": made_by,
                }
            )
            kept.write(condition, runs)
        if runs:
            kept.finish(runs)


def of_study(
    declared: Measurement, measure: Callable[[P], Result | NotMeasured]
) -> Callable[..., None]:
    """Make the command line of a measurement of its parameters alone: ``measure(parameters)``."""

    def main(config: Config, output: Output) -> None:
        job = read_section(config, StudyJob[declared.parameters])  # type: ignore[name-defined]
        seal(output, declared, {}, measure(job.parameters), job.parameters, {})

    return documented(main, measure)


def documented(main: Callable[..., None], measure: Callable[..., Any]) -> Callable[..., None]:
    """Give a command line the first line of its measurement's module as its help."""
    main.__doc__ = (sys.modules[measure.__module__].__doc__ or "").split("\n")[0]
    return main


def result(declared: Measurement, run: dict[str, str], measured: Result | NotMeasured) -> Run:
    """What a file holds of one run, without its provenance.

    Parameters
    ----------
    declared
        The measurement's declaration.
    run
        What was measured: model, data set, condition, as far as they apply.
    measured
        The results, or why there are none.
    """
    return {
        "schema": declared.schema,
        "measurement": declared.name,
        "catalogue": list(declared.catalogue),
        "run": run,
        "status": "measured",
        "reason": None,
        **measured.as_json(),
    }


def not_run(reason: str, parameters: Any) -> NotMeasured:
    """What a measurement returns for a run that cannot be measured."""
    return NotMeasured(reason=reason, confidence=getattr(parameters, "confidence", None))


def attempted(
    parameters: Any, measure: Callable[..., Result | NotMeasured], *given: Any
) -> Result | NotMeasured:
    """What ``measure(*given)`` returns, or why a part of the model that it reads is not known."""
    try:
        return measure(*given)
    except NotKnown as error:
        return not_run(str(error), parameters)


def lacking(declared: Measurement, weights: Path) -> str | None:
    """Why a model lacks what a measurement needs; None if it has it, or was not verified.

    Parameters
    ----------
    declared
        The measurement.
    weights
        Folder of the model: what was verified when it was fetched lies beside its weights.
    """
    if not (weights / VERIFICATION).is_file():
        return None
    said = read_json(weights / VERIFICATION)
    reasons = (said["can"].get(need) for need in declared.needs)
    return next((reason for reason in reasons if reason is not None), None)


def provenance(declared: Measurement, parameters: BaseModel, inputs: Inputs) -> Provenance:
    """What a result was made from, with ``inputs`` as checksums by name."""
    return {
        "parameters": parameters.model_dump(),
        "inputs": inputs,
        "versions": versions("numpy", *declared.uses),
        "code": code_digest(f"posenc.measurements.{declared.name}.measure"),
    }


def seal(
    path: Path,
    declared: Measurement,
    run: dict[str, str],
    measured: Result | NotMeasured,
    parameters: BaseModel,
    inputs: Inputs,
) -> None:
    """Write the :func:`result` of one run with its :func:`provenance`."""
    made_by = provenance(declared, parameters, inputs)
    write_sealed(path, {**result(declared, run, measured), "provenance": made_by})


class Resampling(TypedDict):
    """How intervals are drawn, as the functions of ``posenc.metrics`` take it."""

    samples: int
    confidence: float
    seed: int


def bootstrap(parameters: Any) -> Resampling:
    """How intervals are drawn, as the functions of ``posenc.metrics`` take it."""
    return {
        "samples": parameters.bootstrap_samples,
        "confidence": parameters.confidence,
        "seed": parameters.seed,
    }


@contextmanager
def naming(place: str, advice: str = "") -> Iterator[None]:
    """Say where activations could not be measured, and what to do about it.

    Raises
    ------
    ArtifactError
        For a ``ValueError``, which is all that pure mathematics can say.
    """
    try:
        yield
    except ValueError as error:
        raise ArtifactError(
            f"{place}: {error}; {advice}if float16 overflowed, set activations.dtype to float32"
        ) from error


class Kept:
    """The measurements of one model and data set on disk: one file per run, or one for all runs.

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

    def current(self, condition: str, provenance: Provenance) -> Run | None:
        """The measurement of a run, if it is there, undamaged, and made from the same inputs."""
        runs = [run for run in self._found if run["run"]["condition"] == condition]
        if not self._bundled:
            runs = [self._read(self._path(condition))]
        same = [run for run in runs if run.get("provenance") == provenance]
        return same[0] if same else None

    def write(self, condition: str, runs: list[Run]) -> None:
        """Save the last run that was measured, so that a killed job resumes after it."""
        if not self._bundled:
            write_sealed(self._path(condition), runs[-1])
            return
        done = {run["run"]["condition"] for run in runs}
        others = [run for run in self._found if run["run"]["condition"] not in done]
        self._seal([*runs, *others])

    def finish(self, runs: list[Run]) -> None:
        """Remove from the file the runs that the study no longer has."""
        if self._bundled and self._read(self._file).get("runs") != runs:
            self._seal(runs)

    def _path(self, condition: str) -> Path:
        return self._folder / f"{condition}.json"

    def _seal(self, runs: list[Run]) -> None:
        names = {key: runs[0]["run"][key] for key in ("model", "dataset")}
        write_sealed(
            self._file, {"measurement": runs[0]["measurement"], "run": names, "runs": runs}
        )

    @staticmethod
    def _read(path: Path) -> Mapping[str, Any]:
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
