"""What the summaries of all experiments share: from the trials of every seed to one measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc.artifacts.command import read_section
from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file, write_sealed
from posenc.artifacts.provenance import Provenance, code_digest, versions
from posenc.config.base import Confidence, Section
from posenc.experiments.frame import SeedFile, Trial
from posenc.experiments.results import OfSeeds
from posenc.metrics.seeds import Bounds, SeedMean, over_seeds

SCHEMA = 1


class Summary(Section):
    """What a summary depends on beside the trials."""

    name: str
    """Of the experiment's section in params.yaml."""
    seeds: list[int]
    confidence: Confidence


def by_variant(files: list[SeedFile]) -> list[list[Trial]]:
    """The trials of each variant, [variants][seeds]; every seed has them in the same order."""
    return [list(trials) for trials in zip(*(file["trials"] for file in files), strict=True)]


def over(
    trials: list[Trial], keys: Iterable[str], confidence: float, bounds: Bounds | None = None
) -> dict[str, SeedMean]:
    """Some results of the trials of all seeds, each with its mean and interval."""
    return {key: over_seeds([trial[key] for trial in trials], confidence, bounds) for key in keys}


def summary_command(
    experiment: str,
    catalogue: list[str],
    summarise: Callable[[list[SeedFile], float], OfSeeds],
) -> Callable[..., None]:
    """Make the command line of an experiment's measurement.

    Parameters
    ----------
    experiment
        Its name, which is also its package in ``posenc.experiments``.
    catalogue
        Its rows.
    summarise
        ``summarise(files, confidence)``: from the content of the seeds' files, in the order of the
        seeds, to the results.

    Returns
    -------
    callable
        For ``posenc.artifacts.command.run``.
    """

    def main(
        trials: Annotated[list[Path], typer.Argument(help="files of the seeds")],
        config: Annotated[Path, typer.Option(help="data/config/EXPERIMENT.json")],
        output: Annotated[Path, typer.Option(help="the measurement")],
    ) -> None:
        job = read_section(config, Summary)
        files: list[Any] = [read_sealed(path) for path in trials]
        trial_seeds = [file["seed"] for file in files]
        if trial_seeds != job.seeds:
            raise ArtifactError(
                f"experiments.{experiment}.{job.name}.seeds are {job.seeds}, but the trials are of "
                f"{trial_seeds}; start the workflow again"
            )
        summary = summarise(files, job.confidence)
        # All seeds have the same parameters and inputs.
        provenance: Provenance = files[0]["provenance"]
        seeds = {
            f"seed {seed}": sha256_file(p) for seed, p in zip(trial_seeds, trials, strict=True)
        }
        write_sealed(
            output,
            {
                "schema": SCHEMA,
                "measurement": experiment,
                "catalogue": catalogue,
                "run": files[0]["run"],
                "status": "measured",
                "reason": None,
                "name": job.name,
                "seeds": job.seeds,
                "confidence": job.confidence,
                **summary.as_json(),
                "provenance": {
                    "parameters": provenance["parameters"],
                    "inputs": {**provenance["inputs"], **seeds},
                    "versions": versions("numpy", "scipy"),
                    "code": code_digest(f"posenc.experiments.{experiment}.summary"),
                },
            },
        )

    main.__doc__ = f"Write the measurement of {experiment} to OUTPUT."
    return main
