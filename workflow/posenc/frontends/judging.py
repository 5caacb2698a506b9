"""Snakemake asks receipts what is current, instead of dates and its own records."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import snakemake.dag
import snakemake.jobs
import snakemake.utils
import snakemake.workflow
from snakemake.persistence import NO_PARAMS_CHANGE, ParamsChange
from snakemake.persistence.file import FilePersistence

from posenc.artifacts import receipts
from posenc.artifacts.contents import Contents
from posenc.artifacts.files import read_json

QUOTING = set("\"'\\")
"""Without any of these, a shell splits words at spaces alone, which takes a tenth of the time."""


class Because(ParamsChange):
    """Why a job is due; Snakemake prints it behind "Params have changed since last execution"."""

    def __init__(self, why: str, files: set[str]) -> None:
        super().__init__(files=files)
        self._why = why

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return self._why


class Judging(FilePersistence):
    """Snakemake's records, which decide nothing; a report still reads them."""

    contents: Contents
    planned: Mapping[str, str]
    """Paths of files that a dry run reads in place of others, which it does not write."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reasons: dict[Any, str | None] = {}

    def why(self, job: Any) -> str | None:
        """Why a job's result is not current; None if it is, or if it is only intermediate."""
        receipt = getattr(job.output, "receipt", None)
        if receipt is None:
            return None
        if job not in self._reasons:
            real = self.planned
            foreseen = {path: written for written, path in real.items()}
            command = _command(job)
            self._reasons[job] = receipts.difference(
                receipts.read(Path(receipt)),
                lambda path: self.contents.digest(foreseen.get(path, path)),
                receipts.command_of([real.get(part, part) for part in command]),
                {real.get(path, path) for path in map(str, job.input) if not is_passing(path)},
                {str(path) for path in job.output if path != receipt},
            )
            if (why := self._reasons[job]) is not None:
                self._reasons[job] = self._version_in(Path(receipt), why, foreseen) or why
        return self._reasons[job]

    def _version_in(self, receipt: Path, why: str, foreseen: Mapping[str, str]) -> str | None:
        """The package whose version differs from the result's, if that is why."""
        name, _, _ = why.partition(" ")
        stored = receipts.read(receipt)
        path = Path(foreseen.get(name, name))
        if stored is None or path.parent.name != "code" or not path.exists():
            return None
        for package, version in read_json(path)["versions"].items():
            if stored.versions.get(package) != version:
                return f"{package} {version} in place of {stored.versions.get(package)}"
        return None

    def params_changed(self, job: Any, file: Any = None) -> Any:
        if (why := self.why(job)) is None:
            return NO_PARAMS_CHANGE
        return Because(why, set(job.output))

    def has_metadata(self, job: Any) -> bool:
        return True

    def has_outdated_metadata(self, job: Any) -> bool:
        return False

    def code_changed(self, job: Any, file: Any = None) -> Any:
        return False if file is not None else iter(())

    input_changed = software_stack_changed = code_changed

    async def incomplete(self, job: Any) -> list[Any]:
        return []

    def deactivate_cache(self) -> None:
        super().deactivate_cache()
        self._reasons.clear()


def _command(job: Any) -> list[str]:
    """What a job would run. Snakemake formats it itself once jobs are planned and have numbers."""
    _, _, pattern = job.rule.shellcmd.partition(" -- ")
    command, _, _ = pattern.rpartition(" 2>&1 ")
    known = job.rule.workflow.globals
    text = snakemake.utils.format(
        command, **known | {
            "input": job.input, "output": job.output, "params": job.params,
            "wildcards": job.wildcards, "threads": job.threads, "rule": job.rule.name,
        },
    )  # fmt: skip
    return shlex.split(text) if QUOTING & set(text) else text.split()


def is_passing(path: str) -> bool:
    """Whether a file only lives until the next job has read it."""
    return "/captures/" in path


async def _no_date(_: Any) -> None:
    return None


async def _no_check(*_: Any) -> None:
    return None


def ask_receipts(contents: Contents, planned: Mapping[str, str]) -> None:
    """Have the Snakemake of this process plan by receipts, and by nothing else.

    Its check that outputs are newer than inputs goes too: a file dated in the future cost the whole
    job and its last result.
    """
    Judging.contents, Judging.planned = contents, planned
    snakemake.workflow.FilePersistence = Judging
    snakemake.jobs.Job.output_mintime = property(_no_date)
    snakemake.dag.DAG.check_output_mtime = _no_check
