"""Turn measurements into what the documents and DVC read: numbers, tables, metrics, plots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import run
from posenc.artifacts.files import CHECKSUMS, write_checksums, write_json, write_text
from posenc.report import typeset
from posenc.report.gathered import read


def main(
    study: Annotated[Path, typer.Option(help="the active study, data/config/study.json")],
    published: Annotated[Path, typer.Option(help="published numbers, with their source")],
    versions: Annotated[Path, typer.Option(help="what versions of the library did with a mask")],
    output_numbers: Annotated[Path, typer.Option(help="LaTeX definitions of every number")],
    output_tables: Annotated[Path, typer.Option(help="folder of the LaTeX tables")],
    metrics: Annotated[Path, typer.Option(help="headline numbers for `dvc metrics`")],
    plots: Annotated[Path, typer.Option(help="folder of the CSV files for `dvc plots`")],
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...")],
) -> None:
    """Write numbers, tables, metrics and plots of the measurements INPUT."""
    results = read(study, published, versions, inputs)
    write_text(output_numbers, typeset.numbers_tex(results))
    for name in typeset.TABLES:
        write_text(output_tables / f"{name}.tex", typeset.table_tex(results, name))
    write_checksums(output_numbers.with_name(CHECKSUMS), output_numbers.name)
    write_checksums(output_tables / CHECKSUMS, *(f"{name}.tex" for name in typeset.TABLES))
    write_json(metrics, typeset.metrics(results))
    write_json(metrics.with_name("numbers.json"), typeset.numbers_json(results))
    tables = typeset.plots(results)
    for path in (plots / "layers").glob("*.csv"):
        if f"layers/{path.name}" not in tables:
            path.unlink()  # of a run that the study no longer has
    for name, text in tables.items():
        write_text(plots / name, text)


if __name__ == "__main__":
    run(main)
