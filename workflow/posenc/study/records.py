"""Snakemake's own records of the jobs that it finished."""

from __future__ import annotations

import json
import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posenc.artifacts.files import write_json

RECORDS = Path(".snakemake/metadata")
INCOMPLETE = Path(".snakemake/incomplete")
END = re.compile(rb'[^\\]"endtime": ([0-9.e+]+)')
"""When a job ended, in Snakemake's record of its output."""


def record_path(path: Path, kind: Path = RECORDS) -> Path:
    """Where Snakemake keeps what it knows of a file; it splits long names into folders."""
    name, longest = urlsafe_b64encode(str(path).encode()).decode(), 255
    parts = [name[i : i + longest - 1] for i in range(0, len(name), longest - 1)]
    return kind.joinpath(*("@" + part for part in parts[:-1]), parts[-1])


def recorded_end(path: Path) -> float | None:
    """When Snakemake finished making a file, in seconds; None where it has no record of it."""
    try:
        found = END.search(record_path(path).read_bytes())
    except OSError:
        return None
    return float(found[1]) if found else None


def read_record(path: Path) -> dict[str, Any] | None:
    """Snakemake's record of the job that made a file just as it is; None where there is none.

    Snakemake writes the record of a job that failed, too, after it has brought its earlier outputs
    back under a new date. The benchmark tells: it is the last file that a job's success touches.
    """
    made = path.stat().st_mtime
    if record_path(path, INCOMPLETE).exists() or recorded_end(path) != made:
        return None
    try:
        record = json.loads(record_path(path).read_text(encoding="utf-8"))
        succeeded = benchmark_of(record).stat().st_mtime
    except (OSError, ValueError, LookupError):
        return None
    return record if succeeded >= made else None


def untimed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without dates."""
    return {key: value for key, value in record.items() if key not in ("starttime", "endtime")}


def write_record(path: Path, record: Mapping[str, Any], end: float) -> None:
    """Give Snakemake a record of a file, as of a job that ended then."""
    write_json(record_path(path), {**record, "starttime": end, "endtime": end})


def of_absent(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Snakemake's records, without dates, of those of some files that are not there."""
    found = {}
    for name in names:
        if not Path(name).exists():
            try:
                text = record_path(Path(name)).read_text(encoding="utf-8")
                found[name] = untimed(json.loads(text))
            except (OSError, ValueError):
                continue  # then Snakemake goes by dates
    return found


def benchmark_of(record: Mapping[str, Any]) -> Path:
    """The benchmark of a job: as its log, in a folder of its own."""
    log = Path(record["log"][0])
    return (log.parents[-2] / "benchmarks" / log.relative_to(log.parents[-2])).with_suffix(".tsv")


def was_edited_meanwhile(record: Mapping[str, Any], made: set[str]) -> bool:
    """Whether an input that people edit was saved after the job had started.

    What is in ``data/config`` is never written while a run is at work.

    Parameters
    ----------
    record
        Snakemake's, of the job.
    made
        Paths that rules make.
    """
    start = record.get("starttime") or 0
    for name in record.get("input") or []:
        if name in made or name.startswith("data/config/"):
            continue
        try:
            if os.stat(name).st_mtime > start:
                return True
        except OSError:
            continue
    return False
