"""Fetch a pretrained model: weights and configuration into one folder, tokenizer into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc.config.models import Model
from posenc.models import fetch
from posenc.steps.common import read_section, run


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
