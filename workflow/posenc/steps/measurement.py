"""What all measurements of runs share: one job a model, a file a run, current ones kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import typer
from pydantic import BaseModel

from posenc.config.base import Name, Section
from posenc.files import ArtifactError, read_sealed, sha256_file, write_sealed
from posenc.provenance import code_digest, versions
from posenc.steps.common import read_section
from posenc.store import INDEX, ActivationStore, check_pair

P = TypeVar("P", bound=BaseModel)


class Job(Section, Generic[P]):
    """What the measurement of one model's runs depends on, beside their stores."""

    parameters: P
    datasets: list[Name]
    conditions: list[Name]


def command(
    measurement: str,
    section: type[P],
    measure: Callable[[P, ActivationStore, ActivationStore], dict[str, Any]],
    files: Collection[str] | None = None,
) -> Callable[..., None]:
    """Make a measurement's command line.

    Parameters
    ----------
    measurement
        Its name, which is also its module in ``posenc.steps``.
    section
        Its section of params.yaml.
    measure
        ``measure(parameters, intact, condition)``; what it returns is written, with its
        provenance.
    files
        Which files of a store it reads, None for all: those are verified.

    Returns
    -------
    callable
        For ``posenc.steps.common.run``.
    """

    def main(
        config: Annotated[Path, typer.Option(help="data/config/MEASUREMENT/MODEL.json")],
        activations: Annotated[Path, typer.Option(help="folder of the model's stores")],
        output: Annotated[Path, typer.Option(help="folder of its measurements")],
    ) -> None:
        job = read_section(config, Job[section])
        code = code_digest(f"posenc.steps.{measurement}")
        for dataset in job.datasets:
            intact_folder, opened = activations / dataset / job.conditions[0], None
            for condition in job.conditions:
                folder = activations / dataset / condition
                target = output / dataset / f"{condition}.json"
                provenance = {
                    "parameters": job.parameters.model_dump(),
                    "inputs": {
                        "intact": digest_of(intact_folder),
                        "condition": digest_of(folder),
                    },
                    "versions": versions("numpy"),
                    "code": code,
                }
                if is_current(target, provenance):
                    print(f"{target} is current and is kept", file=sys.stderr)
                    continue
                # The intact store is read, and verified, once for all conditions.
                opened = opened or ActivationStore(intact_folder, files)
                store = opened if folder == intact_folder else ActivationStore(folder, files)
                check_pair(opened, store)
                measured = measure(job.parameters, opened, store)
                precision = store.metadata["precision"]
                write_sealed(target, {**measured, "precision": precision, "provenance": provenance})

    main.__doc__ = (sys.modules[measure.__module__].__doc__ or "").split("\n")[0]
    return main


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


def is_current(path: Path, provenance: dict[str, Any]) -> bool:
    """Whether a measurement is there, whole, and made of the same."""
    try:
        return path.exists() and read_sealed(path).get("provenance") == provenance
    except ArtifactError as error:
        print(f"{error}; it is measured again", file=sys.stderr)
        return False
