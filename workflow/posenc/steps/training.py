"""Put a training's loss curve and summary among the results of a study that it belongs to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import run
from posenc.artifacts.files import DamagedError, atomic_file, read_sealed, sha256_file


def main(
    curve: Annotated[Path, typer.Option(help="loss.csv of the training")],
    summary: Annotated[Path, typer.Option(help="summary.json of the training")],
    output: Annotated[Path, typer.Option(help="folder of the training in the study")],
) -> None:
    """Copy CURVE and SUMMARY to the folder OUTPUT.

    They are compared with their checksums: damage that was copied on would be found in the copies
    only, which the next run would make of the same damaged files again.
    """
    if sha256_file(curve) != read_sealed(summary)["curve"]["sha256"]:
        raise DamagedError(curve, f"{curve} does not match its checksum in {summary}")
    for path in (curve, summary):
        with atomic_file(output / path.name) as temporary:
            shutil.copyfile(path, temporary)


if __name__ == "__main__":
    run(main)
