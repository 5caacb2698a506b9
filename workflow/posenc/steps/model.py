"""Fetch a pretrained model: weights and configuration into one folder, tokenizer into another."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.models.load import fetch
from posenc.models.section import Model

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from posenc.architectures.verify import Verdict


def main(
    name: Annotated[str, typer.Option()],
    config: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
    tokenizer: Annotated[Path, typer.Option()],
) -> None:
    """Write configuration and weights to OUTPUT, ``tokenizer.json`` to TOKENIZER."""
    section = read_section(config, Model)
    fetch(name, section, output, tokenizer, functools.partial(look, name, section))


def look(name: str, section: Model, folder: Path, tokenizer: Tokenizer) -> Verdict:
    """Compare a model with the library's own run of it, and with what its section says."""
    # Not before files are known to be whole: they take seconds to import.
    from posenc.capture.verified import looked_at

    return looked_at(f"models.{name}", section, folder, tokenizer)


if __name__ == "__main__":
    run(main)
