"""Write the report page: one HTML file with every figure and every number of a study."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError, read_sealed, verify, write_text
from posenc.report import page
from posenc.report.gathered import read
from posenc.report.page_rows import MissingError, rows_of


def main(
    study: Annotated[Path, typer.Option(help="the active study, data/config/study.json")],
    published: Annotated[Path, typer.Option(help="published numbers, with their source")],
    versions: Annotated[Path, typer.Option(help="what versions of the library did with a mask")],
    output: Annotated[Path, typer.Option(help="the page, an .html file")],
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...")],
) -> None:
    """Write the page of the measurements, figures (.svg) and verifications of models INPUT."""
    measured = [path for path in inputs if path.suffix != ".svg"]
    results = read(study, published, versions, measured)
    figures = [figure_of(path) for path in inputs if path.suffix == ".svg"]
    for figure in figures:
        for path in figure.inputs:
            if Path(path) not in measured:
                raise ArtifactError(f"the figure {figure.name} shows {path}, which is no input")
    measurements = [measurement["file"] for measurement in results.measurements]
    root = os.path.commonpath(measurements) if len(measurements) > 1 else "."
    try:
        text = page.page(results, rows_of(results), figures, root)
    except MissingError as error:
        raise ArtifactError(f"{output}: {error}") from error
    write_text(output, text)
    size = len(text.encode())
    if size > page.MOST_BYTES:
        print(f"warning: {output} has {size} bytes: browsers open it slowly", file=sys.stderr)


def figure_of(path: Path) -> page.Figure:
    """Read a figure.

    Raises
    ------
    DamagedError
        If its file was altered.
    """
    checksums = path.with_suffix(".json").name
    picture = verify(path, checksums)
    inputs = read_sealed(path.with_name(checksums))["inputs"]
    return page.Figure(path.stem, picture.read_text(encoding="utf-8"), tuple(inputs))


if __name__ == "__main__":
    run(main)
