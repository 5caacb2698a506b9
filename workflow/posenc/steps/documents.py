"""Parse and clean a raw file: ``python -m posenc.steps.documents --config --raw --output``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import sha256_file
from posenc.datasets.documents import RawInput, write_documents
from posenc.datasets.parsing import parse
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import Content


def main(
    config: Annotated[Path, typer.Option(help="Section NAME/documents.json.")],
    raw: Annotated[Path, typer.Option(help="The data set's raw file.")],
    output: Annotated[Path, typer.Option(help="The documents.parquet to write.")],
) -> None:
    """Parse a data set's raw file into cleaned documents."""
    content = read_section(config, Content)
    file = RawFile.of_copy(raw, dataset=config.parent.name)
    provenance: dict[str, RawInput] = {"raw": {"name": raw.name, "sha256": sha256_file(raw)}}
    count = write_documents(parse(file, content), output, content, provenance)
    print("\n".join([f"{file}: {count} documents", *file.notes()]), file=sys.stderr)


if __name__ == "__main__":
    run(main)
