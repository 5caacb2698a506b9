"""Tokenize the documents that a study evaluates on, as a model reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from tokenizers import Tokenizer

from posenc.config.base import Section
from posenc.config.datasets import Evaluation
from posenc.config.models import Reading
from posenc.datasets.documents import read_documents, select
from posenc.files import sha256_file, verify
from posenc.provenance import versions
from posenc.steps.common import read_section, run
from posenc.store import write_table
from posenc.tokenization import SCHEMA, tokenize


class Job(Section):
    """What the tokens of one data set depend on, beside the model's tokenizer and the documents."""

    reading: Reading
    evaluation: Evaluation


def main(
    config: Annotated[Path, typer.Option(help="data/config/tokenize/MODEL/DATASET.json")],
    tokenizer: Annotated[Path, typer.Option(help="the model's tokenizer.json")],
    documents: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
) -> None:
    """Write the tokens of the data set's evaluation documents to OUTPUT."""
    job = read_section(config, Job)
    chosen = select(read_documents(documents, split=job.evaluation.split), job.evaluation)
    table = tokenize(
        Tokenizer.from_file(str(verify(tokenizer))),
        chosen["document_id"].to_pylist(),
        chosen["text"].to_pylist(),
        job.reading.max_tokens,
        job.reading.is_decoder,
    )
    write_table(
        table,
        output,
        {
            "schema": SCHEMA,
            "max_tokens": job.reading.max_tokens,
            "bos": job.reading.is_decoder,
            "evaluation": job.evaluation.model_dump(),
            "inputs": {"tokenizer": sha256_file(tokenizer), "documents": sha256_file(documents)},
            "versions": versions("tokenizers", "pyarrow"),
        },
    )


if __name__ == "__main__":
    run(main)
