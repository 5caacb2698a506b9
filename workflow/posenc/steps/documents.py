"""Parse and clean a raw file: ``python -m posenc.steps.documents --config --raw --output``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import sha256_file, verify
from posenc.datasets.documents import write_documents
from posenc.datasets.parsing import parse
from posenc.datasets.section import Content


def main(
    config: Annotated[Path, typer.Option(help="Section NAME/documents.json.")],
    raw: Annotated[Path, typer.Option(help="The data set's raw file.")],
    output: Annotated[Path, typer.Option(help="The documents.parquet to write.")],
) -> None:
    """Parse a data set's raw file into cleaned documents."""
    content = read_section(config, Content)
    verify(raw, f"{raw.name}.json")
    provenance = {"raw": {"name": raw.name, "sha256": sha256_file(raw)}}
    write_documents(parse(raw, content), output, content, provenance)


if __name__ == "__main__":
    run(main)
