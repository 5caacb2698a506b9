"""Atomic writes and checksums: what every step uses to leave whole files or none."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

JsonObject: TypeAlias = dict[str, Any]
"""Content of a file that is open: what a user, a model hub or a program of others has written."""
T = TypeVar("T")


class ArtifactError(RuntimeError):
    """An artifact on disk is not what it says it is: truncated, altered or of another make."""


class DamagedError(ArtifactError):
    """A file that the workflow made is truncated or altered; made again, it is whole.

    Parameters
    ----------
    path
        The output that the workflow makes again.
    problem
        What is wrong, with the damaged file's name.
    part
        The damaged file, where another one is made with it.
    """

    def __init__(
        self, path: str | os.PathLike, problem: str, part: str | os.PathLike | None = None
    ) -> None:
        super().__init__(problem)
        self.path, self.part = Path(path), Path(part or path)


LONG_AGO = 1
"""Date of a file that is to be made again, in seconds; Snakemake takes 0 for no date."""


def mark_for_remaking(path: str | os.PathLike) -> None:
    """Give a file a date at which it is read, and not believed, when the next run starts."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(path, (LONG_AGO, LONG_AGO))


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


UNFINISHED = ".unfinished"
_TOLD: list[Callable[[Path], None]] = []


@contextlib.contextmanager
def told(tell: Callable[[Path], None]) -> Iterator[None]:
    """Within the block, tell of each file that is finished and in its place."""
    _TOLD.append(tell)
    try:
        yield
    finally:
        _TOLD.remove(tell)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike, mode: int | None = None) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it into place when the block succeeds.

    Nothing appears under ``path`` when the block raises, and a process that is killed leaves at
    most a hidden ``.NAME.*.unfinished`` file, which the next run removes. The rename replaces the
    directory entry and never writes into an existing inode, so a hard link into DVC's cache stays
    intact. Its mode is ``mode``, or that of a new file.

    Raises
    ------
    OSError
        If the disk is full, naming the file, whichever library says it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=UNFINISHED, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask if mode is None else mode)
        _flush_to_disk(temporary)
        temporary.replace(target)
        for tell in _TOLD:
            tell(target)
    except Exception as error:
        for number in (errno.ENOSPC, errno.EDQUOT):
            # Libraries in Rust raise errors of their own.
            if getattr(error, "errno", None) == number or f"(os error {number})" in str(error):
                raise OSError(number, os.strerror(number), str(target)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(path: str | os.PathLike) -> None:
    """Refuse a file whose owner took away the permission to write it; renaming would not.

    Raises
    ------
    ArtifactError
        If the file or its folder is write-protected.
    """
    target = Path(path).resolve()
    if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
        raise ArtifactError(f"{path} is write-protected: `chmod u+w {path}`, and run this again")
    if not os.access(target.parent, os.W_OK):
        raise ArtifactError(f"{path} cannot be replaced: nothing can be written in {target.parent}")


def replace_text(path: str | os.PathLike, before: str, after: str) -> None:
    """Write UTF-8 text in place of what was read, if it is still there.

    Ends of lines are those of ``after``. The file keeps its mode, and a link stays one.

    Raises
    ------
    ArtifactError
        If somebody saved the file meanwhile, which is as they left it, or it is write-protected.
    """
    check_writable(path)
    target = Path(path).resolve()
    with atomic_file(target, stat.S_IMODE(target.stat().st_mode)) as temporary:
        temporary.write_bytes(after.encode("utf-8"))
        if target.read_bytes() != before.encode("utf-8"):
            raise ArtifactError(f"{path} changed meanwhile: run this again")


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write a JSON value atomically, indented, with a final newline.

    Raises
    ------
    ValueError
        If the value holds a NaN or an infinity, which JSON cannot carry.
    """
    write_text(path, _text(value))


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def holds_json(path: str | os.PathLike, value: Any) -> bool:
    """Whether a file is what :func:`write_json` would write."""
    path = Path(path)
    return path.exists() and path.read_bytes() == _text(value).encode()


def sha256_of_json_file(value: Any) -> str:
    """SHA-256 of the file that :func:`write_json` would write."""
    return hashlib.sha256(_text(value).encode()).hexdigest()


def write_json_if_changed(path: str | os.PathLike, value: Any) -> None:
    """Write a JSON value unless the file already holds it."""
    if not holds_json(path, value):
        write_json(path, value)


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file.

    Raises
    ------
    ArtifactError
        If the file is not valid JSON, naming it and the way out.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path} is not valid JSON ({error}); delete it and rerun") from error


def if_whole(path: Path, read: Callable[[Path], T]) -> T | None:
    """What a file holds; None if it is not there, or is damaged, which is said on stderr."""
    try:
        return read(path) if path.exists() else None
    except ArtifactError as error:
        print(f"{error}; it is made again", file=sys.stderr)
        return None


def write_sealed(path: str | os.PathLike, value: Mapping[str, Any]) -> None:
    """Write a JSON mapping with its own checksum under the key ``sha256``."""
    write_json(path, {**value, "sha256": sha256_json(value)})


def read_sealed(path: str | os.PathLike) -> dict[str, Any]:
    """Read a JSON mapping written by :func:`write_sealed`, without the checksum.

    Raises
    ------
    DamagedError
        If it is not JSON, or its checksum is another one.
    """
    try:
        value = read_json(path)
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist; rerun the workflow to make it") from None
    except ArtifactError as error:
        raise DamagedError(path, str(error)) from None
    text = Path(path).read_bytes()
    seal = value.pop("sha256", None) if isinstance(value, dict) else None
    # Every byte counts: 1e-05 and 1E-05 are one value, but what is made of them names the bytes.
    if seal != sha256_json(value) or text != _text({**value, "sha256": seal}).encode():
        raise DamagedError(path, f"{path} does not match its own checksum: it was altered")
    return value


def unbundled(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The measurements that a file holds: itself, or those of all conditions."""
    return value.get("runs", [value])


SEAL = "posenc_seal"
"""Key of a Parquet file's metadata under which its own checksum stands."""
UNSEALED = "0" * 64
_SEALED = re.compile(SEAL.encode() + rb"\x18\x40([0-9a-f]{64})")


def seal_parquet(path: str | os.PathLike) -> None:
    """Put a Parquet file's own checksum into its metadata, where ``UNSEALED`` was written.

    The checksums of Parquet cover pages, but neither their headers nor the footer. This one is of
    all bytes of the file with ``UNSEALED`` in its own place.
    """
    content = Path(path).read_bytes()
    place = _SEALED.search(content)
    if place is None or place[1].decode() != UNSEALED:
        raise ValueError(f"{path} has no metadata {SEAL}: {UNSEALED}")
    with open(path, "r+b") as file:
        file.seek(place.start(1))
        file.write(hashlib.sha256(content).hexdigest().encode())


def check_parquet(path: str | os.PathLike) -> None:
    """Compare a Parquet file with its own checksum.

    Raises
    ------
    ArtifactError
        If it does not exist, or is a whole Parquet file without a checksum.
    DamagedError
        If it is truncated or altered.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist; rerun the workflow to make it") from None
    place = _SEALED.search(content)
    # The damage may have hit the checksum's own name.
    if place is None and content[:4] == content[-4:] == b"PAR1" and b"posenc" not in content:
        raise ArtifactError(f"{path} was not written by this project: it has no checksum")
    if place is not None:
        start, end = place.span(1)
        unsealed = content[:start] + UNSEALED.encode() + content[end:]
        if hashlib.sha256(unsealed).hexdigest().encode() == place[1]:
            return
    raise DamagedError(path, f"{path} does not match its own checksum: it was altered or damaged")


CHECKSUMS = "checksums.json"


def write_checksums(path: str | os.PathLike, *names: str, **facts: Any) -> None:
    """Write checksums of files beside ``path`` to it, for :func:`verify`; facts stand beside."""
    folder = Path(path).parent
    write_sealed(path, {"files": {name: sha256_file(folder / name) for name in names}, **facts})


def verify(path: str | os.PathLike, checksums: str = CHECKSUMS) -> Path:
    """Compare a file with its checksum in the file of checksums beside it, and return its path.

    Raises
    ------
    DamagedError
        If it is absent, truncated or altered.
    """
    path = Path(path)
    expected = read_sealed(path.with_name(checksums))["files"].get(path.name)
    if not path.exists() or sha256_file(path) != expected:
        raise DamagedError(path, f"{path} does not match its checksum: it was altered or damaged")
    return path


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
    for tell in _TOLD:
        for file in sorted(target.iterdir()):
            tell(file)
