"""Damaged files, and what a step does with them when it runs as a command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from posenc.artifacts.files import LONG_AGO


class Killed(BaseException):
    """Stands for a kill: not an Exception, so nothing may swallow it."""


def flip(path: Path) -> Path:
    """Flip one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def flips(path: Path, bit: int) -> Iterator[int]:
    """Flip a bit of each byte of a file in turn, and put the file back at the end."""
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= bit
        path.write_bytes(damaged)
        yield position
    path.write_bytes(whole)


def call(module: str, *arguments, **options) -> subprocess.CompletedProcess:
    """Run a step as the workflow does; a list repeats its option.

    Not in the project's own folder, where a Snakemake that starts would end it as an orphan.
    """
    command = [sys.executable, "-m", module]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            command += [f"--{name.replace('_', '-')}", str(item)]
    command += map(str, arguments)
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def found_and_marked(
    damaged: Path, module: str, *arguments, marked: Path | None = None, **options
) -> str:
    """Check that a step finds a damaged file, marks it for remaking and says so in one line.

    Parameters
    ----------
    damaged
        The file.
    marked
        What is made again with it, if that is another file.

    Returns
    -------
    str
        The line.
    """
    marked, content = marked or damaged, damaged.read_bytes()
    done = call(module, *arguments, **options)
    assert done.returncode == 1, done.stderr
    *progress, line = done.stderr.splitlines()
    assert all("shard/s]" in other or not other for other in progress), done.stderr
    assert line.startswith(f"error: {damaged}")
    assert line.endswith(f"start again, and {marked} is made again")
    # Neither front end believes a file of that date unread; nothing is removed.
    assert damaged.stat().st_mtime == marked.stat().st_mtime == LONG_AGO
    assert damaged.read_bytes() == content
    return line
