"""What measurements of position embeddings share: they measure models, and tables of no model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import numpy as np
import typer
from pydantic import BaseModel, model_validator

from posenc.artifacts.command import read_section
from posenc.artifacts.files import ArtifactError, write_sealed
from posenc.artifacts.results import NotMeasured, Result
from posenc.measurements.declaration import Measurement
from posenc.measurements.frame import (
    Config,
    Output,
    StudyJob,
    attempted,
    documented,
    lacking,
    not_run,
    provenance,
    result,
)
from posenc.models.discovered import Discovered, tensors_of
from posenc.models.files import model_digests
from posenc.models.heads import HeadFile, HeadWeights
from posenc.models.matrices import Matrix, PathMatrix
from posenc.models.section import Reading
from posenc.models.tables import checked, read_matrix
from posenc.models.weights import Weights

P = TypeVar("P", bound=BaseModel)


class Job(StudyJob[P], Generic[P]):
    """What the measurement of one table depends on, besides its model or file."""

    reading: Reading | None
    matrix: Matrix | None

    @model_validator(mode="after")
    def _check_subject(self) -> Job:
        if (self.reading is None) == (self.matrix is None):
            raise ValueError("give either reading, of a model, or matrix")
        return self


@dataclass(frozen=True)
class Subject:
    """What is measured.

    Attributes
    ----------
    name
        Of the model or of the matrix.
    kind
        ``model``, or the matrix's.
    positions
        float64 [positions, d_model].
    heads
        Opens the maps of the heads that read them; None for a table alone.
    """

    name: str
    kind: str
    positions: np.ndarray
    heads: Callable[[], HeadWeights | Discovered | HeadFile] | None


def of_tables(
    declared: Measurement, measure: Callable[[P, Subject], Result | NotMeasured]
) -> Callable[..., None]:
    """Make the command line of a measurement of tables: ``measure(parameters, subject)``."""

    def of_model(job: Job, name: str, weights: Path) -> Result | NotMeasured:
        assert job.reading is not None  # a job has one of both
        return measure(job.parameters, _of_model(name, job.reading.family, weights))

    def main(
        subject: Annotated[str, typer.Option(help="name of the model or of the matrix")],
        config: Config,
        output: Output,
        weights: Annotated[Path | None, typer.Option(help="folder of the model")] = None,
    ) -> None:
        job = read_section(config, Job[declared.parameters])  # type: ignore[name-defined]
        kind = "model" if job.matrix is None else job.matrix.kind
        if job.matrix is not None:
            opened, inputs = _of_matrix(subject, job.matrix)
            measured = measure(job.parameters, opened)
        elif weights is None:
            raise ArtifactError(f"{subject} is a model: give --weights, its folder")
        else:
            inputs = model_digests(weights)
            if (reason := lacking(declared, weights)) is not None:
                measured = not_run(reason, job.parameters)
            else:
                measured = attempted(job.parameters, of_model, job, subject, weights)
        run = {"matrix" if job.matrix else "model": subject}
        matrix = job.matrix and job.matrix.model_dump(exclude={"path"})
        made_by = {**provenance(declared, job.parameters, inputs), "matrix": matrix}
        facts = {"subject": subject, "kind": kind, "provenance": made_by}
        whole = {**result(declared, run, measured), **facts}
        write_sealed(output, whole)

    return documented(main, measure)


def _of_model(name: str, family: str, weights: Path) -> Subject:
    """A model's table, and the maps that read it."""
    table = tensors_of(Weights, weights, family).embeddings()[1]  # [positions, d_model]
    table = checked(table, f"the position embeddings of {name}")
    heads = partial(tensors_of, HeadWeights, weights, family)
    return Subject(name, "model", table, heads)


def _of_matrix(name: str, matrix: Matrix) -> tuple[Subject, dict[str, str]]:
    """A matrix of params.yaml, and the checksum of its file."""
    field, heads = f"matrices.{name}", None
    table, inputs = read_matrix(matrix, field)  # [positions, d_model]
    if isinstance(matrix, PathMatrix) and matrix.n_heads is not None:
        heads = partial(HeadFile, Path(matrix.path), matrix.n_heads, field)
    return Subject(name, matrix.kind, table, heads), inputs
