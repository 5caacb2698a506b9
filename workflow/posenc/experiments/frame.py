"""What all experiments that train share: a job a seed, resumed, and a summary of all seeds.

A *trial* is one training of an experiment: one variant with one seed. The job of a seed keeps each
trial as soon as it is done, and the state of the one that it is at.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field
from tqdm import tqdm

from posenc.artifacts.checkpoints import FILE, Checkpoint
from posenc.artifacts.command import read_section
from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    sha256_file,
    sha256_json,
    write_sealed,
)
from posenc.artifacts.provenance import code_digest, versions
from posenc.config.base import Section

SCHEMA = 1
DONE = "done.json"

Work = Callable[[Checkpoint, Callable[[int, float], None]], dict[str, Any]]
"""From a checkpoint, and what is told of each step and its loss, to the results of one trial."""


class Trials:
    """The trials of one seed on disk.

    Parameters
    ----------
    output
        The file of the seed.
    partial
        Folder of what is not finished. It lies apart from the output, because a workflow manager
        removes outputs before a job.
    experiment
        Name of the experiment, ``downstream``.
    run
        What it is about beside the seed: ``{"model": "minilm"}``.
    seed
        The seed.
    provenance
        Parameters, inputs, versions and code; trials of another are made again.
    """

    def __init__(
        self,
        output: Path,
        partial: Path,
        experiment: str,
        run: dict[str, str],
        seed: int,
        provenance: dict[str, Any],
    ) -> None:
        self._output, self._partial = output, partial
        self._head = {"schema": SCHEMA, "experiment": experiment, "run": run, "seed": seed}
        self._provenance = provenance
        self._done: list[dict[str, Any]] = self._read(partial / DONE)
        if self._done:
            print(f"going on after {len(self._done)} trials that are done", file=sys.stderr)
        self._trials: list[dict[str, Any]] = []

    @property
    def current(self) -> bool:
        """Whether the output is there, whole, and made of the same; then nothing is to be done."""
        is_current = bool(self._read(self._output))
        if is_current:
            print(f"{self._output} is current and is kept", file=sys.stderr)
        return is_current

    def measure(
        self, variant: dict[str, Any], steps: int, work: Work, again: bool = False
    ) -> dict[str, Any]:
        """Do one trial, unless it is done; return its variant and results.

        Parameters
        ----------
        variant
            What is varied, with its values: ``{"task": "sentiment", "positions": "zero"}``.
        steps
            How many steps it takes at most, for the progress bar.
        work
            What trains and measures.
        again
            Do it even if it is done, because something of it that is not in its results, and that
            later trials need, is lost. Those that were done after it are done again too.
        """
        if again:
            places = [i for i, one in enumerate(self._done) if one["variant"] == variant]
            self._done = self._done[: min(places, default=len(self._done))]
        done = [one for one in self._done if one["variant"] == variant]
        if not done:
            identity = sha256_json([self._head, variant, self._provenance])
            checkpoint = Checkpoint(self._partial / FILE, identity)
            name = " ".join(map(str, variant.values()))
            with tqdm(total=steps, unit="step", desc=name, mininterval=5) as bar:

                def report(step: int, loss: float) -> None:
                    bar.update(step - bar.n)
                    bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

                done = [{"variant": variant, **work(checkpoint, report)}]
            write_sealed(self._partial / DONE, self._content([*self._done, *done]))
            checkpoint.path.unlink(missing_ok=True)
            self._done = [*self._done, *done]
        self._trials += done
        return done[0]

    def finish(self) -> None:
        """Write the output, in the order of the calls, and remove what was partial."""
        write_sealed(self._output, self._content(self._trials))
        shutil.rmtree(self._partial, ignore_errors=True)

    def _content(self, trials: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "trials": trials, "provenance": self._provenance}

    def _read(self, path: Path) -> list[dict[str, Any]]:
        try:
            found = read_sealed(path) if path.exists() else {}
        except ArtifactError as error:
            print(f"{error}; it is made again", file=sys.stderr)
            return []
        same = all(found.get(key) == value for key, value in self._head.items())
        return found["trials"] if same and found["provenance"] == self._provenance else []


class Summary(Section):
    """What a summary depends on beside the trials."""

    name: str
    """Of the experiment's section in params.yaml."""
    seeds: list[int]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]


def summary_command(
    experiment: str,
    catalogue: list[str],
    summarise: Callable[[list[dict[str, Any]], float], dict[str, Any]],
) -> Callable[..., None]:
    """Make the command line of an experiment's measurement.

    Parameters
    ----------
    experiment
        Its name, which is also its module in ``posenc.steps``.
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
        files = [read_sealed(path) for path in trials]
        found = [one["seed"] for one in files]
        if found != job.seeds:
            raise ArtifactError(
                f"experiments.{experiment}.{job.name}.seeds are {job.seeds}, but the trials are of "
                f"{found}; start the workflow again"
            )
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
                **summarise(files, job.confidence),
                "provenance": {
                    # All seeds have the same.
                    "parameters": files[0]["provenance"]["parameters"],
                    "inputs": {
                        **files[0]["provenance"]["inputs"],
                        **{f"seed {seed}": sha256_file(path)
                           for seed, path in zip(found, trials, strict=True)},
                    },
                    "versions": versions("numpy", "scipy"),
                    "code": code_digest(f"posenc.experiments.{experiment}.summary"),
                },
            },
        )  # fmt: skip

    main.__doc__ = f"Write the measurement of {experiment} to OUTPUT."
    return main
