"""Make the tokenizer of a trained model: learned from its documents, or given as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.models.files import check_digests, tokenizer_files
from posenc.models.section import Corpus, TrainedTokenizer
from posenc.models.tokenizers import copy_tokenizer, save_tokenizer


def main(
    name: Annotated[str, typer.Option()],
    config: Annotated[Path, typer.Option()],
    documents: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
) -> None:
    """Write OUTPUT, a ``tokenizer.json``, and its checksum beside it."""
    corpus = read_section(config, Corpus)
    if not isinstance(corpus.tokenizer, TrainedTokenizer):
        key, folder = f"models.{name}.source.tokenizer", Path(corpus.tokenizer.path)
        check_digests(f"{key}.files", folder, tokenizer_files(folder), corpus.tokenizer.files)
        copy_tokenizer(key, folder, output.parent)
        return
    from posenc.datasets.documents import training_documents
    from posenc.tokens.tokenize import train_bpe

    training, _ = training_documents(
        documents, corpus.split, corpus.documents, corpus.validation_share, corpus.seed
    )
    tokenizer = train_bpe(training["text"].to_pylist(), corpus.tokenizer.vocabulary_size)
    save_tokenizer(tokenizer, output.parent)


if __name__ == "__main__":
    run(main)
