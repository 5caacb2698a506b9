"""What files contain: SHA-256 by path, read again whenever the file system says that it may differ.

The memory is a file of lines that any process may append to. It saves time and decides nothing: a
line that is lost or cut costs one more reading.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from posenc.artifacts.files import sha256_file, write_text

PLACE = Path(".snakemake/posenc/contents.jsonl")
Signature = tuple[int, int, int, int]
"""Size, inode, and the dates of the last change of contents and of status, in nanoseconds."""


def status(path: str | os.PathLike) -> os.stat_result | None:
    """What the file system says of a file; None without a file."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def signature(path: str | os.PathLike) -> Signature | None:
    """What changes with a file's bytes, also when its date is set back; None without a file."""
    stat = status(path)
    return stat and (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


class Contents:
    """SHA-256 of files, by their paths from the project's root.

    Parameters
    ----------
    place
        The memory; None for one of this process alone.
    """

    def __init__(self, place: Path | None = PLACE) -> None:
        self._place = place
        self._known: dict[str, tuple[Signature, str]] = {}
        self._lines = 0
        try:
            lines = place.read_text(encoding="utf-8").splitlines() if place else []
        except (OSError, UnicodeDecodeError):
            lines = []
        for line in lines:
            try:
                path, *marks, digest = json.loads(line)
            except ValueError:
                continue  # cut by a kill
            self._known[path] = (tuple(marks), digest)
        self._lines = len(lines)

    def digest(self, path: str | os.PathLike) -> str | None:
        """SHA-256 of a file as 64 hexadecimal digits; None where there is no file."""
        marks = signature(path)
        if marks is None or os.path.isdir(path):
            return None
        known = self._known.get(os.fspath(path))
        if known is not None and known[0] == marks:
            return known[1]
        return self.read(path)

    def read(self, path: str | os.PathLike) -> str | None:
        """The same, read from the disk whatever is remembered."""
        while True:
            marks = signature(path)
            if marks is None:
                return None
            digest = sha256_file(path)
            if signature(path) == marks:  # else it was written while it was read
                break
        self._remember(os.fspath(path), marks, digest)
        return digest

    def _remember(self, path: str, marks: Signature, digest: str) -> None:
        if self._known.get(path) == (marks, digest):
            return
        self._known[path] = (marks, digest)
        if self._place is None:
            return
        line = json.dumps([path, *marks, digest]) + "\n"
        try:
            self._place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)
        except OSError:
            self._place = None  # a full or read-only disk: the next process reads the file again
        self._lines += 1

    def compact(self) -> None:
        """Write the memory anew where most of its lines are of files as they were earlier."""
        if self._place is None or self._lines < 2 * len(self._known) + 1000:
            return
        known = {path: entry for path, entry in self._known.items() if os.path.exists(path)}
        text = "".join(json.dumps([path, *marks, d]) + "\n" for path, (marks, d) in known.items())
        write_text(self._place, text)
        self._lines = len(known)
