"""Gather the captured shards of a model's runs into finished stores."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError
from posenc.capture.runs import Job, clean, finish, is_captured, partials, runs_of


def main(
    model: Annotated[str, typer.Option(help="its name")],
    config: Annotated[Path, typer.Option(help="data/config/capture/MODEL.json")],
    weights: Annotated[Path, typer.Option(help="folder of the model")],
    tokens: Annotated[Path, typer.Option(help="folder of its tokens")],
    output: Annotated[Path, typer.Option(help="folder of its stores")],
) -> None:
    """Write the index of every run that is not current, and move its store into place."""
    job = read_section(config, Job)
    for capture_run in runs_of(job, model, weights, tokens, output):
        # A store that a capture found damaged may look current from its index.
        if is_captured(capture_run, job) or not capture_run.is_current(thorough=False):
            try:
                finish(capture_run, job)
            except ArtifactError:
                # Snakemake would take the capture for done.
                for part in partials(output).parent.glob(f"{model}.*.json"):
                    part.unlink()
                raise
        clean(capture_run)
    # What is left is of other inputs or code.
    shutil.rmtree(partials(output), ignore_errors=True)


if __name__ == "__main__":
    run(main)
