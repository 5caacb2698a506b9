"""Tokenize the documents that a decoder learns from, whole, with those held out marked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from tokenizers import Tokenizer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import sha256_file, verify
from posenc.artifacts.provenance import versions
from posenc.artifacts.tables import write_table
from posenc.datasets.documents import training_documents
from posenc.models.section import Corpus
from posenc.tokens.tokenize import SCHEMA, tokenize


def main(
    config: Annotated[Path, typer.Option()],
    tokenizer: Annotated[Path, typer.Option()],
    documents: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
) -> None:
    """Write the training and validation tokens to OUTPUT (column ``held_out``)."""
    corpus = read_section(config, Corpus)
    vocabulary = Tokenizer.from_file(str(verify(tokenizer)))
    parts = []
    drawn = training_documents(
        documents, corpus.split, corpus.documents, corpus.validation_share, corpus.seed
    )
    for held_out, chosen in enumerate(drawn):
        table = tokenize(
            vocabulary,
            chosen["document_id"].to_pylist(),
            chosen["text"].to_pylist(),
            max_tokens=None,
            is_decoder=True,
        ).select(["document_id", "input_ids"])
        parts.append(table.append_column("held_out", pa.array([bool(held_out)] * len(table))))
    write_table(
        pa.concat_tables(parts),
        output,
        {
            "schema": SCHEMA,
            "inputs": {"tokenizer": sha256_file(tokenizer), "documents": sha256_file(documents)},
            "versions": versions("tokenizers", "pyarrow"),
        },
    )


if __name__ == "__main__":
    run(main)
