"""What the trials of all experiments share: one job per seed, which goes on where it was stopped.

A *trial* is one training of an experiment: one variant with one seed. The job of a seed keeps each
trial as soon as it is done, and the state of the one that it is at.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar

import typer
from pydantic import BaseModel

from posenc.artifacts.checkpoints import FILE, Checkpoint
from posenc.artifacts.command import read_section
from posenc.artifacts.files import (
    ArtifactError,
    if_whole,
    read_sealed,
    sha256_file,
    sha256_json,
    write_sealed,
)
from posenc.artifacts.provenance import Provenance, code_digest, versions
from posenc.config.base import Section
from posenc.datasets.section import Evaluation

SCHEMA = 1
DONE = "done.json"
TRAINING_SPLIT = "train"
"""The split of a data set that experiments learn from."""

P = TypeVar("P", bound=BaseModel)
Report = Callable[[int, float], None]
"""Is told of each step that is done, and of its loss."""
Work = Callable[[Checkpoint, Report], Mapping[str, Any]]
"""From a checkpoint, and what is told of each step and its loss, to the results of one trial."""


Trial: TypeAlias = Mapping[str, Any]
"""A ``variant``, and beside it its results, of which each experiment has its own."""


class Head(TypedDict):
    """Which trials a file holds."""

    schema: int
    experiment: str
    run: dict[str, str]
    """What they are about beside the seed: ``{"model": "minilm"}``."""
    seed: int


class SeedFile(Head):
    """What the file of a seed holds."""

    trials: list[Trial]
    provenance: Provenance


class Training(TypedDict):
    """What trials keep of a training of a network."""

    best_step: int
    """Steps after which the validation loss was lowest."""
    steps: int
    """Steps that were taken."""
    validation_loss: float
    """The lowest."""
    curve: list[dict[str, float]]
    """By validation, ``step``, ``training_loss`` (mean since the last row), ``validation_loss``,
    and what else was noted."""


@dataclass(frozen=True)
class Files:
    """What the command line names for an experiment to read.

    Attributes
    ----------
    documents
        Of each data set that it is trained on.
    model, weights, tokenizer
        The name of the pretrained model, its folder and its ``tokenizer.json``; only an experiment
        that fine-tunes models has them.
    """

    documents: list[Path] = field(default_factory=list)
    model: str = ""
    weights: Path = Path()
    tokenizer: Path = Path()


class Job(Section, Generic[P]):
    """What trials depend on beside their seed and files."""

    parameters: P

    def inputs(self, files: Files) -> dict[str, str]:
        """SHA-256 of what is read, by name; of all documents by data set."""
        return {path.stem: sha256_file(path) for path in files.documents}

    def run(self, files: Files) -> dict[str, str]:
        """What the trials are about beside the seed: ``{"model": "minilm"}``."""
        return {}

    def recorded(self) -> Mapping[str, Any]:
        """What the provenance of the trials says of it."""
        return self.parameters.model_dump()


class LabelledJob(Job[P], Generic[P]):
    """What the trials on one data set with labels depend on."""

    evaluation: Evaluation
    device: Literal["auto", "cpu", "cuda"]

    def inputs(self, files: Files) -> dict[str, str]:
        (documents,) = files.documents
        return {"documents": sha256_file(documents)}

    def run(self, files: Files) -> dict[str, str]:
        return {"dataset": self.recorded()["dataset"]}

    def recorded(self) -> Mapping[str, Any]:
        # Of the data set's evaluation, trials read its split alone.
        return {**super().recorded(), "test_split": self.evaluation.split}


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
        provenance: Provenance,
    ) -> None:
        self._output, self.partial, self.seed = output, partial, seed
        self._head: Head = {
            "schema": SCHEMA, "experiment": experiment, "run": run, "seed": seed,
        }  # fmt: skip
        self._provenance = provenance
        self._done: list[Trial] = self._read(partial / DONE)
        if self._done:
            print(f"going on after {len(self._done)} trials that are done", file=sys.stderr)
        self._trials: list[Trial] = []

    @property
    def current(self) -> bool:
        """Whether the output is there, whole, and made of the same; then there is nothing to do."""
        is_current = bool(self._read(self._output))
        if is_current:
            print(f"{self._output} is current and is kept", file=sys.stderr)
        return is_current

    def identity(self, part: Any) -> str:
        """Digest of all that determines a part of the work."""
        return sha256_json([self._head, part, self._provenance])

    def measure(
        self, variant: Mapping[str, Any], steps: int, work: Work, again: bool = False
    ) -> Trial:
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
            Do it even if it is done, because later trials need something of it that is lost and not
            in its results. Those that were done after it are done again too.
        """
        if again:
            places = [i for i, trial in enumerate(self._done) if trial["variant"] == variant]
            self._done = self._done[: min(places, default=len(self._done))]
        done = [trial for trial in self._done if trial["variant"] == variant]
        if not done:
            from posenc.models.training import progress

            checkpoint = Checkpoint(self.partial / FILE, self.identity(variant))
            with progress(" ".join(map(str, variant.values())), steps) as report:
                done = [{"variant": variant, **work(checkpoint, report)}]
            self._done += done
            write_sealed(self.partial / DONE, self._content(self._done))
            checkpoint.path.unlink(missing_ok=True)
        self._trials += done
        return done[0]

    def finish(self) -> None:
        """Write the output, in the order of the calls, and remove what was partial."""
        write_sealed(self._output, self._content(self._trials))
        shutil.rmtree(self.partial, ignore_errors=True)

    def _content(self, trials: list[Trial]) -> SeedFile:
        return {**self._head, "trials": trials, "provenance": self._provenance}

    def _read(self, path: Path) -> list[Trial]:
        content = if_whole(path, read_sealed) or {}
        same = all(content.get(key) == value for key, value in self._head.items())
        return content["trials"] if same and content["provenance"] == self._provenance else []


def trials_command(
    experiment: str,
    section: type[Job],
    measure: Callable[[Any, Files, Trials], None],
    uses: Sequence[str],
) -> Callable[..., None]:
    """Make the command line of the trials of one seed.

    Parameters
    ----------
    experiment
        Its name, which is also its package in ``posenc.experiments``.
    section
        What its trials depend on.
    measure
        ``measure(job, files, trials)`` does all trials of ``trials.seed``.
    uses
        Packages beside NumPy and torch whose versions a result depends on.

    Returns
    -------
    callable
        For ``posenc.artifacts.command.run``.
    """

    def main(
        seed: Annotated[int, typer.Option(min=0)],
        config: Annotated[Path, typer.Option(help="data/config/EXPERIMENT_trials/SUBJECT.json")],
        output: Annotated[Path, typer.Option(help="the trials of the seed")],
        partial: Annotated[Path, typer.Option(help="folder of what is not finished")],
        threads: Annotated[int, typer.Option(min=1)] = 1,
        documents: Annotated[list[Path] | None, typer.Option(help="DATASET.parquet")] = None,
        model: Annotated[str, typer.Option(help="name of the model that is fine-tuned")] = "",
        weights: Annotated[Path, typer.Option(help="folder of that model")] = Path(),
        tokenizer: Annotated[Path, typer.Option(help="its tokenizer.json")] = Path(),
    ) -> None:
        from posenc.models.devices import use_threads

        use_threads(threads)
        job = read_section(config, section)
        files = Files(documents or [], model, weights, tokenizer)
        provenance: Provenance = {
            "parameters": job.recorded(),
            "inputs": job.inputs(files),
            "versions": versions("numpy", "torch", *uses),
            "code": code_digest(f"posenc.experiments.{experiment}.trials"),
        }
        trials = Trials(output, partial, experiment, job.run(files), seed, provenance)
        if not trials.current:
            measure(job, files, trials)
            trials.finish()

    main.__doc__ = f"Write the trials of {experiment} of one seed to OUTPUT."
    return main


def tested_split(dataset: str, evaluation: Evaluation) -> str:
    """The split that a data set is tested on.

    Raises
    ------
    ArtifactError
        If it is the one that experiments learn from.
    """
    if evaluation.split == TRAINING_SPLIT:
        raise ArtifactError(
            f"datasets.{dataset}.evaluation.split is {evaluation.split!r}, which the experiment "
            f"learns from: choose another"
        )
    return evaluation.split
