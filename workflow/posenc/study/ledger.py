"""What each file is, and what it was made of: contents decide what is current, never dates.

Snakemake compares dates first, and some dates lie: a job that fails gets its earlier results back
under a new date, and DVC, a copy or a restored backup bring in files with any date. Snakemake's own
record of a finished job, however, holds the checksum of every input. The ledger keeps those records
with the checksum of the output that each belongs to, so a file can be recognised by its bytes,
whoever put it there, and compared with the inputs that are there now.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from posenc.artifacts.files import (
    SEAL,
    ArtifactError,
    DamagedError,
    check_parquet,
    read_sealed,
    sha256_file,
    sha256_json,
)
from posenc.study.records import INCOMPLETE, of_absent, record_path, untimed, write_record

PLACE = Path(".snakemake/posenc.sqlite")
INDEX = "index.parquet"
STANDS_FOR_FOLDER = (INDEX, "masks.json")
"""Files that are the last of their folder to be written, and hold the checksums of the others."""
KEPT = 12
"""Earlier makings of a file that can still be recognised."""
VERSION = 2
_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, digest TEXT UNIQUE, record TEXT);
CREATE TABLE IF NOT EXISTS made (
  path TEXT, content TEXT, job INTEGER, mtime INTEGER, turn INTEGER,
  PRIMARY KEY (path, content, job)
);
CREATE TABLE IF NOT EXISTS seen (
  path TEXT PRIMARY KEY, size INTEGER, mtime INTEGER, inode INTEGER, content TEXT
);
CREATE TABLE IF NOT EXISTS settled (
  path TEXT PRIMARY KEY, content TEXT, mtime INTEGER, record INTEGER, beside TEXT, job INTEGER
);
"""


class LedgerError(RuntimeError):
    """The ledger cannot be read or written."""


class Job(NamedTuple):
    """A job that Snakemake finished.

    Attributes
    ----------
    number
        In the ledger.
    record
        Snakemake's record of it, without dates, and under ``passing`` the records of its inputs
        that Snakemake removes once they are read.
    mtime
        When the output was made, in nanoseconds.
    """

    number: int
    record: dict[str, Any]
    mtime: int

    @property
    def inputs(self) -> dict[str, str]:
        """Paths of its inputs, with ``sha256:`` and the checksum that each had."""
        return self.record.get("input_checksums") or {}


def parts_of(path: Path) -> dict[str, str]:
    """SHA-256 of the files beside one that stands for its folder, as it records them.

    Raises
    ------
    posenc.artifacts.files.ArtifactError
        If the file itself is damaged.
    """
    if path.name == INDEX:
        from posenc.artifacts.tables import read_table

        return {entry["file"]: entry["sha256"] for entry in read_table(path)[1]["files"]}
    from posenc.conditions import learned

    return learned.checksums(path)


def damaged_part(path: Path) -> Path | None:
    """A file itself if it does not match its own checksum, or one that it stands for and belies it.

    None for a whole file, and for one without a checksum of its own.
    """
    if path.name not in STANDS_FOR_FOLDER:
        try:
            _check_own(path)
        except (DamagedError, FileNotFoundError):
            return path
        return None
    try:
        parts = parts_of(path)
    except (ArtifactError, OSError, ValueError, KeyError):
        return path
    for name, sha256 in parts.items():
        part = path.with_name(name)
        if not part.exists() or sha256_file(part) != sha256:
            return part
    return None


def _check_own(path: Path) -> None:
    """Compare a file with its own checksum, if it is of a kind that has one.

    Raises
    ------
    DamagedError
        If it is truncated or altered.
    """
    if path.suffix == ".json" and b'\n "sha256": ' in path.read_bytes():
        read_sealed(path)
    elif path.suffix == ".parquet" and SEAL.encode() in path.read_bytes():
        check_parquet(path)


class Ledger:
    """The contents of files, and the jobs that made them, on disk.

    Parameters
    ----------
    place
        The database. What is in it can be lost without harm: files that are only known by it are
        then made again. A damaged one is replaced.
    """

    def __init__(self, place: Path = PLACE) -> None:
        self._place = place
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._open()
        except sqlite3.DatabaseError:
            place.unlink(missing_ok=True)
            self._open()
        if self._database.execute("PRAGMA user_version").fetchone() != (VERSION,):
            self._database.close()
            place.unlink()
            self._open()
            self._database.execute(f"PRAGMA user_version = {VERSION}")
        self._jobs: dict[int, dict[str, Any]] = {}
        self._changed: dict[int, list[str]] = {}

    def _open(self) -> None:
        self._database = sqlite3.connect(self._place, timeout=60)
        self._database.executescript(_TABLES)
        self._seen = {
            row[0]: row[1:]
            for row in self._database.execute("SELECT path, size, mtime, inode, content FROM seen")
        }
        self._settled = {
            row[0]: row[1:]
            for row in self._database.execute(
                "SELECT path, content, mtime, record, beside, job FROM settled"
            )
        }

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._database.commit()
            self._database.close()
        except sqlite3.Error as failure:
            error = failure
        if isinstance(error, sqlite3.Error):
            raise LedgerError(f"{self._place} cannot be written: {error}") from None

    # --- Contents -------------------------------------------------------------------------------

    def content(self, path: Path | str) -> str | None:
        """SHA-256 of a file, read again when its date, size or inode is another; None without."""
        try:
            stat = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        known = self._seen.get(str(path))
        if known is None or known[:3] != (stat.st_size, stat.st_mtime_ns, stat.st_ino):
            known = self._see(path, stat, sha256_file(path))
        return known[3]

    def _see(self, path: Path | str, stat: os.stat_result, content: str) -> tuple:
        known = (stat.st_size, stat.st_mtime_ns, stat.st_ino, content)
        self._seen[str(path)] = known
        self._database.execute(
            "INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?)", (str(path), *known)
        )
        return known

    # --- What files were made of ----------------------------------------------------------------

    def outputs(self) -> list[Path]:
        """Outputs of jobs, as they were last looked at."""
        return sorted(map(Path, self._settled))

    def recorded(self, path: Path) -> str:
        """The SHA-256 that an output had when it was last looked at."""
        return self._settled[str(path)][0]

    def was_seen(self, path: Path) -> bool:
        """Whether a file was ever there, made by a job."""
        return str(path) in self._settled

    def is_as_left(self, path: Path) -> bool:
        """Whether a file, and what it stands for, has not changed since it was last looked at."""
        known = self._settled.get(str(path))
        return known is not None and known[:4] == (self.content(path), *_marks(path))

    def is_altered(self, path: Path) -> bool:
        """Whether a file has other bytes than it was left with, though no date says so."""
        known, marks = self._settled.get(str(path)), _marks(path)
        return known is not None and known[1:4] == marks and known[0] != self.content(path)

    def is_changed_beside(self, path: Path) -> bool:
        """Whether a file is as it was left, but not those that it stands for."""
        known, now = self._settled.get(str(path)), (self.content(path), *_marks(path))
        return known is not None and known[:3] == now[:3] and known[3] != now[3]

    def left_by(self, path: Path) -> Job:
        """The job that made a file that is as it was left."""
        _, mtime, _, _, job = self._settled[str(path)]
        return Job(job, self._record(job), mtime)

    def made_by(self, path: Path) -> list[Job]:
        """The jobs that made a file with exactly these bytes, the last one first.

        Several may have: an edit that does not reach a table makes it again, from other inputs.
        """
        rows = self._database.execute(
            "SELECT job, mtime FROM made WHERE path = ? AND content = ? ORDER BY turn DESC",
            (str(path), self.content(path)),
        )
        return [Job(job, self._record(job), mtime) for job, mtime in rows.fetchall()]

    def add(self, path: Path, record: Mapping[str, Any]) -> None:
        """Note that the job of a record made a file as it is now."""
        kept = {**untimed(record), "passing": of_absent(record.get("input") or [])}
        digest = sha256_json(kept)
        self._database.execute(
            "INSERT OR IGNORE INTO jobs (digest, record) VALUES (?, ?)",
            (digest, json.dumps(kept)),
        )
        (job,) = self._database.execute(
            "SELECT id FROM jobs WHERE digest = ?", (digest,)
        ).fetchone()
        name, mtime = str(path), path.stat().st_mtime_ns
        (turn,) = self._database.execute("SELECT coalesce(max(turn), 0) + 1 FROM made").fetchone()
        self._database.execute(
            "INSERT OR REPLACE INTO made VALUES (?,?,?,?,?)",
            (name, self.content(path), job, mtime, turn),
        )
        self._database.execute(
            "DELETE FROM made WHERE path = ? AND turn NOT IN"
            " (SELECT turn FROM made WHERE path = ? ORDER BY turn DESC LIMIT ?)",
            (name, name, KEPT),
        )
        self._note(path, job)

    def put_back(self, path: Path, job: Job) -> None:
        """Give a file the date and Snakemake the record that belong to these bytes."""
        content = self.content(path)
        assert content is not None, f"{path} is gone"
        os.utime(path, ns=(job.mtime, job.mtime))
        self._see(path, path.stat(), content)
        record = {key: value for key, value in job.record.items() if key != "passing"}
        write_record(path, record, path.stat().st_mtime)
        record_path(path, INCOMPLETE).unlink(missing_ok=True)
        self._note(path, job.number)

    def put_back_passing(self, job: Job) -> None:
        """Give Snakemake the records of those inputs of a job that it has removed since.

        It compares what these were made of as well; another making of them may have been noted.
        """
        passing = job.record["passing"]
        now = of_absent(passing)
        for name, record in passing.items():
            if now.get(name) != record and not Path(name).exists():
                write_record(Path(name), record, job.mtime / 1e9)

    def forget_unused(self) -> None:
        """Drop the jobs that no file is known by any more."""
        self._database.execute("DELETE FROM jobs WHERE id NOT IN (SELECT job FROM made)")

    def changed_inputs(self, job: Job) -> list[str]:
        """Inputs of a job that are there, and are not what the job read."""
        if job.number not in self._changed:
            self._changed[job.number] = [
                path
                for path, checksum in job.inputs.items()
                if (content := self.content(path)) is not None and f"sha256:{content}" != checksum
            ]
        return self._changed[job.number]

    def _record(self, job: int) -> dict[str, Any]:
        if job not in self._jobs:
            (text,) = self._database.execute(
                "SELECT record FROM jobs WHERE id = ?", (job,)
            ).fetchone()
            self._jobs[job] = json.loads(text)
        return self._jobs[job]

    def _note(self, path: Path, job: int) -> None:
        known = (self.content(path), *_marks(path), job)
        self._settled[str(path)] = known
        self._database.execute(
            "INSERT OR REPLACE INTO settled VALUES (?,?,?,?,?,?)", (str(path), *known)
        )


def _marks(path: Path) -> tuple[int, int, str]:
    """What changes when a file, Snakemake's record of it, or a file that it stands for does."""
    stat = path.stat()
    try:
        record = record_path(path).stat().st_mtime_ns
    except OSError:
        record = 0
    beside: Iterable[Path] = path.parent.iterdir() if path.name in STANDS_FOR_FOLDER else ()
    signature = [
        f"{other.name} {other.stat().st_size} {other.stat().st_mtime_ns}" for other in beside
    ]
    return stat.st_mtime_ns, record, "\n".join(sorted(signature))
