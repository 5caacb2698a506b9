"""Fetch a data set's raw file, under a name that is the same for every source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import write_checksums
from posenc.datasets.fetch import fetch
from posenc.datasets.section import Origin


def main(
    name: Annotated[str, typer.Option(help="the data set's")],
    config: Annotated[Path, typer.Option(help="data/config/raw_text/NAME.fetch.json")],
    output: Annotated[Path, typer.Option(help="where the raw file goes")],
) -> None:
    """Fetch a data set's raw file from its source, and write its checksum beside it."""
    origin = read_section(config, Origin)
    fetch(origin.source, origin.format, output, name=name)
    # What reads the copy names the file that it is of.
    source = origin.source.model_dump()
    write_checksums(output.with_name(f"{output.name}.json"), output.name, source=source)


if __name__ == "__main__":
    run(main)
