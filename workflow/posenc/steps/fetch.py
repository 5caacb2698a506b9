"""Fetch a data set's raw file: ``python -m posenc.steps.fetch --config JSON --output FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..config.datasets import Dataset
from ..datasets.fetch import fetch
from .common import read_section, run


def main(
    config: Annotated[Path, typer.Option(help="The data set's section, named NAME.json.")],
    output: Annotated[Path, typer.Option(help="Where the raw file goes.")],
) -> None:
    """Bring a data set's raw file from where its source says."""
    dataset = read_section(config, Dataset)
    fetch(dataset.source, dataset.format, output, name=config.stem)


if __name__ == "__main__":
    run(main)
