"""What measurements of a model's own files share: its weights, and tokens where they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import typer
from pydantic import BaseModel

from posenc.artifacts.command import read_section
from posenc.config.base import Name
from posenc.measurements.declaration import Measurement
from posenc.measurements.frame import Config, Output, StudyJob, documented, seal
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.tokens.tokenized import Tokens

P = TypeVar("P", bound=BaseModel)

Model = Annotated[str, typer.Option(help="name of the model")]
WeightsFolder = Annotated[Path, typer.Option(help="folder of the model")]
TokensFolder = Annotated[Path, typer.Option(help="folder of the model's tokens")]
MasksFolder = Annotated[Path, typer.Option(help="folder of the model's learned masks")]
DocumentsFolder = Annotated[Path, typer.Option(help="folder of the data sets' documents")]


class Job(StudyJob[P], Generic[P]):
    """What the measurement of one model depends on, besides its files."""

    reading: Reading


class CellsJob(Job[P], Generic[P]):
    """What the measurement of one model on each data set depends on, besides its files."""

    datasets: list[Name]


def of_weights(
    declared: Measurement, measure: Callable[[Job, Path], dict[str, Any]]
) -> Callable[..., None]:
    """Make the command line of a measurement of weights alone: ``measure(job, folder)``."""

    def main(model: Model, config: Config, weights: WeightsFolder, output: Output) -> None:
        job = read_section(config, Job[declared.parameters])  # type: ignore[name-defined]
        digests = model_digests(weights)
        seal(output, declared, {"model": model}, measure(job, weights), job.parameters, digests)

    return documented(main, measure)


def cells(
    model: str, datasets: list[str], tokens: Path, output: Path
) -> Iterator[tuple[Path, dict[str, str], Tokens]]:
    """For each data set: the file of its measurement, what is measured, and its tokens."""
    for dataset in datasets:
        run = {"model": model, "dataset": dataset}
        yield output / f"{dataset}.json", run, Tokens(tokens / f"{dataset}.parquet")
