"""Fetch a pretrained model: weights and configuration into one folder, tokenizer into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.models.load import fetch
from posenc.models.section import Model


def main(
    name: Annotated[str, typer.Option()],
    config: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
    tokenizer: Annotated[Path, typer.Option()],
) -> None:
    """Write configuration and weights to OUTPUT, ``tokenizer.json`` to TOKENIZER."""
    fetch(name, read_section(config, Model), output, tokenizer)


if __name__ == "__main__":
    run(main)
