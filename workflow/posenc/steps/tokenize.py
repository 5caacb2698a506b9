"""Tokenize the texts that a study gives to a model, as it reads them; current ones are kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from tokenizers import Tokenizer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import if_whole, sha256_file, verify
from posenc.artifacts.provenance import code_digest, versions
from posenc.artifacts.tables import read_table, write_table
from posenc.config.base import Name, Section
from posenc.datasets.documents import read_documents, select
from posenc.datasets.section import Evaluation
from posenc.models.section import Reading
from posenc.tokens.coverage import coverage_of
from posenc.tokens.tokenize import SCHEMA, tokenize
from posenc.tokens.tokenized import Metadata


class Text(Section):
    """One text: documents of a data set, and how they are read."""

    dataset: Name
    reading: Reading
    evaluation: Evaluation


class Job(Section):
    """What the tokens of one model depend on, beside its tokenizer and the documents."""

    texts: dict[Name, Text]


def main(
    config: Annotated[Path, typer.Option(help="data/config/{tokenize,texts}/MODEL.json")],
    tokenizer: Annotated[Path, typer.Option(help="the model's tokenizer.json")],
    documents: Annotated[Path, typer.Option(help="folder of the data sets' documents")],
    output: Annotated[Path, typer.Option(help="folder of the tokens")],
) -> None:
    """Write the tokens of each text to OUTPUT/TEXT.parquet."""
    job = read_section(config, Job)
    read = Tokenizer.from_file(str(verify(tokenizer)))
    paths = {name: documents / f"{text.dataset}.parquet" for name, text in job.texts.items()}
    digests = {path: sha256_file(path) for path in set(paths.values())}
    for name, text in job.texts.items():
        metadata: Metadata = {
            "schema": SCHEMA,
            "max_tokens": text.reading.max_tokens,
            "bos": text.reading.is_decoder,
            "evaluation": text.evaluation.model_dump(),
            "inputs": {"tokenizer": sha256_file(tokenizer), "documents": digests[paths[name]]},
            "versions": versions("tokenizers", "pyarrow"),
            "code": code_digest("posenc.steps.tokenize"),
        }
        path = output / f"{name}.parquet"
        kept = if_whole(path, read_table)
        if kept and kept[1] == metadata:
            print(f"{path} is current and is kept: {coverage_of(kept[0])}", file=sys.stderr)
            continue
        data = f"datasets.{text.dataset}"
        where = f"{data}.evaluation" if name == text.dataset else f"the text {name!r} of {data}"
        read_split = read_documents(paths[name], split=text.evaluation.split)
        chosen = select(read_split, text.evaluation, where)
        table = tokenize(
            read,
            chosen["document_id"].to_pylist(),
            chosen["text"].to_pylist(),
            text.reading.max_tokens,
            text.reading.is_decoder,
        )
        write_table(table, path, metadata)
        coverage = coverage_of(table)
        print(f"{'note: ' * (coverage.cut > 0)}{path}: {coverage}", file=sys.stderr)


if __name__ == "__main__":
    run(main)
