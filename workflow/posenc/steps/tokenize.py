"""Tokenize documents: those that a study evaluates on, or those that a decoder learns from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from tokenizers import Tokenizer

from posenc.config.datasets import Evaluation
from posenc.config.models import Reading
from posenc.datasets.documents import read_documents, select
from posenc.files import sha256_file
from posenc.provenance import versions
from posenc.steps.common import read_section, run
from posenc.store import write_table
from posenc.tokenization import SCHEMA, tokenize


def main(
    model: Annotated[Path, typer.Option()],
    evaluation: Annotated[Path, typer.Option()],
    tokenizer: Annotated[Path, typer.Option()],
    documents: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
) -> None:
    """Write the tokens of the data set's evaluation documents to OUTPUT."""
    reading = read_section(model, Reading)
    drawn = read_section(evaluation, Evaluation)
    chosen = select(read_documents(documents, split=drawn.split), drawn)
    table = tokenize(
        Tokenizer.from_file(str(tokenizer)),
        chosen["document_id"].to_pylist(),
        chosen["text"].to_pylist(),
        reading.max_tokens,
        reading.is_decoder,
    )
    write_table(
        table,
        output,
        {
            "schema": SCHEMA,
            "max_tokens": reading.max_tokens,
            "bos": reading.is_decoder,
            "evaluation": drawn.model_dump(),
            "inputs": {"tokenizer": sha256_file(tokenizer), "documents": sha256_file(documents)},
            "versions": versions("tokenizers", "pyarrow"),
        },
    )


if __name__ == "__main__":
    run(main)
