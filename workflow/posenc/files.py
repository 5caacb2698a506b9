"""Atomic writes and checksums: what every step uses to leave whole files or none."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class ArtifactError(RuntimeError):
    """An artifact on disk is not what it says it is: truncated, altered or of another make."""


def sha256_file(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file's bytes as 64 lower-case hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _flush_to_disk(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it into place when the block succeeds.

    Nothing appears under ``path`` when the block raises, and a process that is killed leaves at
    most a hidden ``.NAME.*`` file. The rename replaces the directory entry and never writes into
    an existing inode, so a hard link into DVC's cache stays intact.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        _flush_to_disk(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write a JSON value atomically, indented, with a final newline.

    Raises
    ------
    ValueError
        If the value holds a NaN or an infinity, which JSON cannot carry.
    """
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_json_if_changed(path: str | os.PathLike, value: Any) -> bool:
    """Write a JSON value only when the file does not already hold it; return whether it did."""
    try:
        if json.loads(Path(path).read_text(encoding="utf-8")) == value:
            return False
    except (FileNotFoundError, json.JSONDecodeError):
        pass
    write_json(path, value)
    return True


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file.

    Raises
    ------
    ArtifactError
        If the file is not valid JSON, naming it and the way out.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ArtifactError(f"{path} is not valid JSON ({error}); delete it and rerun") from error


def replace_directory(temporary: str | os.PathLike, target: str | os.PathLike) -> None:
    """Move a finished directory into place, removing a previous one of the same name first."""
    temporary, target = Path(temporary), Path(target)
    for file in sorted(temporary.rglob("*")):
        if file.is_file():
            _flush_to_disk(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        retired = target.with_name(f".{target.name}.retired")
        shutil.rmtree(retired, ignore_errors=True)
        target.rename(retired)
        temporary.rename(target)
        shutil.rmtree(retired)
    else:
        temporary.rename(target)


@contextlib.contextmanager
def atomic_directory(path: str | os.PathLike) -> Iterator[Path]:
    """Yield an empty temporary directory and rename it to ``path`` when the block succeeds."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        replace_directory(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
