"""A raw file as its owner knows it: what messages call it, and what mends it."""

from __future__ import annotations

import contextlib
import gzip
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter

from posenc.artifacts.files import read_sealed, verify
from posenc.datasets.errors import DatasetError
from posenc.datasets.section import HubSource, PathSource, PublicSource, Source, UrlSource

VERBS = ("is ", "has ", "holds ")
"""A fault that begins so is said of the file as a whole."""
JUNK = (".DS_Store", "Thumbs.db", "desktop.ini")
"""Files that systems leave in folders, beside those that begin with ``._``."""
JUNK_FOLDER = "__MACOSX"
"""What macOS adds to a ZIP archive."""


@dataclass
class RawFile:
    """A raw file.

    Attributes
    ----------
    path
        Where it is read: the file itself, or the workflow's copy of it.
    name
        What messages call it: the path that the user gave, an address, a data set of the hub.
        Without it, the path.
    instead
        What to do about a fault of a file that is not the user's own.
    after
        What else to do once the user has mended it.
    skipped
        How many files, or rows without any value, were passed over, by what they are.
    """

    path: Path
    name: str = ""
    instead: str = ""
    after: str = ""
    skipped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        self.name = self.name or str(self.path)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, file: RawFile | Path) -> RawFile:
        """A file that may be given as its path alone."""
        return file if isinstance(file, RawFile) else cls(file)

    @classmethod
    def of_source(cls, source: Source, dataset: str, path: Path) -> RawFile:
        """The file of a data set.

        Parameters
        ----------
        source
            Where it comes from.
        dataset
            The data set's key in ``params.yaml``.
        path
            Where it is read.
        """
        other = f"name another one under datasets.{dataset}.source in params.yaml"
        if isinstance(source, PathSource):
            return cls(path, source.path, after=f", and run `posenc repin {dataset}`")
        if isinstance(source, UrlSource | PublicSource):
            # It was compared with what is meant: fetched again it is the same.
            return cls(path, source.url, instead=other)
        if isinstance(source, HubSource):
            again = f"delete {path} and run again, which fetches it, or {other}"
            return cls(path, f"{source.id} at {source.revision}", instead=again)
        return cls(path, instead=f"delete {path} and run again, which makes it")

    @classmethod
    def of_copy(cls, path: Path, dataset: str) -> RawFile:
        """The workflow's copy of a data set's file, verified.

        Parameters
        ----------
        path
            The copy; beside it is the file of its checksum, which says what it is of.
        dataset
            The data set's key in ``params.yaml``.

        Raises
        ------
        DamagedError
            If it does not match its checksum.
        """
        checksums = f"{path.name}.json"
        verify(path, checksums)
        source = read_sealed(path.with_name(checksums)).get("source")
        if source is None:
            return cls(path)
        return cls.of_source(TypeAdapter(Source).validate_python(source), dataset, path)

    def fault(self, what: str, cure: str = "correct it") -> DatasetError:
        """The error of a file with a fault.

        Parameters
        ----------
        what
            Where the fault is, what stands there, and what should.
        cure
            What the owner of the file does about it.
        """
        joined = f"{self} {what}" if what.startswith(VERBS) else f"{self}: {what}"
        return DatasetError(f"{joined}; {self.instead or cure + self.after}")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Say of a file that it is damaged, whatever library notices.

        Raises
        ------
        DatasetError
            If one does.
        """
        import pyarrow as pa

        damage = (
            EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile,
            NotImplementedError, pa.ArrowException,
        )  # fmt: skip
        try:
            yield
        except (*damage, OSError) as error:
            # With a number, it is the system's: no such file, a full disk.
            if not isinstance(error, damage) and getattr(error, "errno", None) is not None:
                raise
            reason = " ".join(str(error).split())
            raise self.fault(f"is truncated or corrupt ({reason})", "get it again") from error

    def is_junk(self, name: str) -> bool:
        """Whether a file of a folder or archive is none of the user's; if so, it is counted."""
        parts = PurePosixPath(name).parts
        last = parts[-1] if parts else ""
        if JUNK_FOLDER in parts:
            self.skipped[JUNK_FOLDER] += 1
        elif last.startswith("._"):
            self.skipped["._*"] += 1
        elif last in JUNK:
            self.skipped[last] += 1
        else:
            return False
        return True

    def notes(self) -> Iterator[str]:
        """What was passed over, in a line for the log."""
        if self.skipped:
            counts = ", ".join(f"{what} ({count})" for what, count in self.skipped.items())
            yield f"{self}: skipped {counts}"
