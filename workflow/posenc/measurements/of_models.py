"""What measurements of a model's own files share: its weights, and tokens where they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import typer
from pydantic import BaseModel

from posenc.artifacts.command import read_section
from posenc.artifacts.files import ArtifactError, sha256_file
from posenc.artifacts.results import NotMeasured, Result
from posenc.config.base import Name
from posenc.datasets.documents import read_documents
from posenc.measurements.declaration import Measurement
from posenc.measurements.frame import (
    Config,
    Output,
    StudyJob,
    attempted,
    documented,
    lacking,
    not_run,
    seal,
)
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.tokens.tokenized import Tokens

P = TypeVar("P", bound=BaseModel)

Model = Annotated[str, typer.Option(help="name of the model")]
WeightsFolder = Annotated[Path, typer.Option(help="folder of the model")]
TokensFolder = Annotated[Path, typer.Option(help="folder of the model's tokens")]
TokenizerFile = Annotated[Path, typer.Option(help="the model's tokenizer.json")]
MasksFolder = Annotated[Path, typer.Option(help="folder of the model's learned masks")]
DocumentsFolder = Annotated[Path, typer.Option(help="folder of the data sets' documents")]


class Job(StudyJob[P], Generic[P]):
    """What the measurement of one model depends on, besides its files."""

    reading: Reading


class CellsJob(Job[P], Generic[P]):
    """What the measurement of one model on each data set depends on, besides its files."""

    datasets: list[Name]


def of_weights(
    declared: Measurement, measure: Callable[[Job, Path], Result | NotMeasured]
) -> Callable[..., None]:
    """Make the command line of a measurement of weights alone: ``measure(job, folder)``."""

    def main(model: Model, config: Config, weights: WeightsFolder, output: Output) -> None:
        job = read_section(config, Job[declared.parameters])  # type: ignore[name-defined]
        digests = model_digests(weights)
        measured: Result | NotMeasured
        if (reason := lacking(declared, weights)) is not None:
            measured = not_run(reason, job.parameters)
        else:
            measured = attempted(job.parameters, measure, job, weights)
        seal(output, declared, {"model": model}, measured, job.parameters, digests)

    return documented(main, measure)


def of_tokens(
    declared: Measurement,
    measure: Callable[[P, Any, Tokens], Result | NotMeasured],
    is_for: Callable[[Reading], bool] = lambda reading: True,
) -> Callable[..., None]:
    """Make the command line of a measurement of a model that runs on its tokens.

    It calls ``measure(parameters, network, text)`` for each data set. A model that fails ``is_for``
    is not loaded, and ``network`` is None.
    """

    def main(
        model: Model, config: Config, weights: WeightsFolder, tokens: TokensFolder, output: Output
    ) -> None:
        job = read_section(config, CellsJob[declared.parameters])  # type: ignore[name-defined]
        digests, network, reason = model_digests(weights), None, None
        if is_for(job.reading):
            reason = lacking(declared, weights)
        if is_for(job.reading) and reason is None:
            from posenc.models.affine import load_ready

            # Sums by several threads would be in another order.
            network = load_ready(weights, job.reading.family, "cpu", threads=1)
        for path, of, text in cells(model, job.datasets, tokens, output):
            if reason is None:
                measured = attempted(job.parameters, measure, job.parameters, network, text)
            else:
                measured = not_run(reason, job.parameters)
            seal(path, declared, of, measured, job.parameters, {"tokens": text.digest, **digests})

    return documented(main, measure)


def beginnings(
    text: Tokens, count: int, wanted: str, *, tokens: int, shortest: int, seed: int
) -> list[list[int]]:
    """The beginnings of random documents.

    Parameters
    ----------
    text
        Documents to draw from.
    count, wanted
        How many are drawn, and which key of ``params.yaml`` says so, in words.
    tokens, shortest
        Tokens at which documents are cut, and tokens that each has at least.
    seed
        Of the draw.

    Raises
    ------
    ArtifactError
        If there are too few.
    """
    enough = np.flatnonzero(text.lengths >= shortest)
    if len(enough) < count:
        raise ArtifactError(
            f"{text.path} has {len(enough)} documents of {shortest} tokens or more, but {wanted}: "
            f"lower it in params.yaml"
        )
    chosen = np.random.default_rng(seed).permutation(enough)[:count]
    return [text.ids[document][:tokens] for document in chosen]


def halves(
    text: Tokens, count: int, key: str, *, tokens: int, shortest: int, seed: int
) -> tuple[list[list[int]], list[list[int]]]:
    """As :func:`beginnings`: documents to estimate from, and as many others that are measured.

    ``key`` of ``params.yaml`` says how many there are of each.
    """
    wanted = f"{key} {count} takes {2 * count}"
    documents = beginnings(text, 2 * count, wanted, tokens=tokens, shortest=shortest, seed=seed)
    return documents[:count], documents[count:]


def cells(
    model: str, datasets: list[str], tokens: Path, output: Path
) -> Iterator[tuple[Path, dict[str, str], Tokens]]:
    """For each data set: the file of its measurement, what is measured, and its tokens."""
    for dataset in datasets:
        run = {"model": model, "dataset": dataset}
        yield output / f"{dataset}.json", run, Tokens(tokens / f"{dataset}.parquet")


def texts_of(documents: Path, text: Tokens) -> list[str]:
    """The text of each tokenized document: tokens do not tell where its words begin.

    Raises
    ------
    ArtifactError
        If the tokens are of other documents.
    """
    if sha256_file(documents) != text.metadata["inputs"]["documents"]:
        raise ArtifactError(f"{text.path} was not made of {documents}: tokenize it again")
    table = read_documents(documents, split=text.metadata["evaluation"]["split"])
    texts = dict(zip(*(table[key].to_pylist() for key in ("document_id", "text")), strict=True))
    return [texts[name] for name in text.table["document_id"].to_pylist()]


def other_texts(
    documents: Path, split: str, evaluated: Tokens | None, key: str
) -> tuple[list[str], list[str]]:
    """Names and texts of a split, without the texts that are evaluated.

    Parameters
    ----------
    documents, split
        File of a data set's documents, and which of them are wanted.
    evaluated
        Tokens of the data set's evaluated documents; None if there are none.
    key
        Which key of ``params.yaml`` names the split, in words.

    Raises
    ------
    ArtifactError
        If the split is evaluated on.
    """
    table = read_documents(documents, split=split, columns=["document_id", "text"])
    names, texts = (table[name].to_pylist() for name in ("document_id", "text"))
    if evaluated is None:
        return names, texts
    if evaluated.metadata["evaluation"]["split"] == split:
        raise ArtifactError(
            f"{key} is {split!r}, which {documents.stem} is evaluated on: choose another in "
            f"params.yaml"
        )
    known = set(texts_of(documents, evaluated))
    kept = [index for index, text in enumerate(texts) if text not in known]
    return [names[index] for index in kept], [texts[index] for index in kept]
