"""What a run would do: Snakemake's plan in one screen, with reasons and times of earlier runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REASONS = {
    "Missing output files": "not made yet",
    "Input files updated by another job": "what it reads is made again",
    "Forced execution": "asked for",
}
"""What Snakemake says, and the same in a few words."""
CHANGED = "Params have changed since last execution"
"""What Snakemake says of every job whose result is not current; the reason stands behind it."""
CONFIG, CODE = "data/config/", "/code/"
_JOB = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):$")
_FACT = re.compile(r"^    (benchmark|reason): (.*)$")


@dataclass
class Job:
    """One job of a plan.

    Attributes
    ----------
    rule
        Its rule.
    benchmark
        The file that holds the time of its last run; empty where none is kept.
    reason
        Why it is due, as Snakemake says it.
    """

    rule: str
    benchmark: str = ""
    reason: str = ""

    @property
    def why(self) -> str:
        """Why it is due, in a few words."""
        what, _, why = self.reason.partition(": ")
        if what != CHANGED:
            return REASONS.get(what, what.lower())
        if not why.startswith(CONFIG):
            return why
        return "its code changed" if CODE in why else "its parameters changed"

    def seconds(self, root: Path) -> float | None:
        """How long it took when it last ran here."""
        path = root / self.benchmark
        return _seconds(path) if self.benchmark and path.is_file() else None


def times(study: str) -> Path:
    """Where Snakemake keeps how long the jobs of a study took, from the project's root."""
    return Path("logs/benchmarks") / study


def took(study: str, root: Path) -> float:
    """Total seconds of all jobs of a study when they last ran here."""
    return sum(_seconds(path) or 0.0 for path in (root / times(study)).rglob("*.tsv"))


def _seconds(path: Path) -> float | None:
    """Seconds that a job took, by Snakemake's file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return float(rows[-1]["s"]) if rows else None


def planned(text: str) -> Iterator[Job]:
    """The jobs of a dry run of Snakemake, without the rule ``all``.

    Parameters
    ----------
    text
        What ``snakemake --dry-run`` prints.
    """
    job = None
    for line in text.splitlines():
        if header := _JOB.match(line):
            if job is not None:
                yield job
            job = Job(header[1]) if header[1] != "all" else None
        elif job is not None and (fact := _FACT.match(line)):
            setattr(job, fact[1], fact[2])
        elif job is not None and not line.startswith("    "):
            # A job's block ends; the numbers at the end of the plan belong to no job.
            yield job
            job = None
    if job is not None:
        yield job


def spoken(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def table(jobs: list[Job], root: Path) -> list[str]:
    """Lines: how many jobs of each rule there are, how long they took, and why they are due."""
    rows: dict[tuple[str, str], list[float | None]] = {}
    for job in jobs:
        rows.setdefault((job.rule, job.why), []).append(job.seconds(root))
    width = max(map(len, ["rule", *(rule for rule, _ in rows)]))
    lines = [f"  {'rule':{width}}  jobs  {'last time':>9}  why"]
    for (rule, why), seconds in rows.items():
        known = [duration for duration in seconds if duration is not None]
        took = spoken(sum(known)) + ("" if len(known) == len(seconds) else " +") if known else "?"
        lines.append(f"  {rule:{width}}  {len(seconds):4}  {took:>9}  {why}")
    times = [duration for seconds in rows.values() for duration in seconds]
    known = [duration for duration in times if duration is not None]
    total = f"{len(jobs)} jobs"
    if known:
        total += f", {spoken(sum(known))} of one processor when they last ran here"
    if known and len(known) < len(times):
        total += f"; {len(times) - len(known)} have not run here"
    return [*lines, total]
