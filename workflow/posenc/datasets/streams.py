"""What a file is by its first bytes, whatever it is called, and its bytes once unpacked."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from posenc.datasets.raw_file import RawFile

HEAD_BYTES = 1 << 16
"""How much of a file is looked at."""
COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    # Frames that are skipped may come before the first one.
    **{bytes([0x50 + number]) + b"\x2a\x4d\x18": "zstd" for number in range(16)},
}
"""By the first bytes of a file: how it is compressed (RFC 1952, RFC 8878)."""
PARQUET, TAR, ZIP, TEXT = "Parquet", "tar", "ZIP", "text"
KINDS = {b"PAR1": PARQUET, b"PK\x03\x04": ZIP, b"PK\x05\x06": ZIP}
"""By the first bytes of a file: what it is, of what is read."""
OTHERS = {
    b"%PDF-": "a PDF",
    b"\xd0\xcf\x11\xe0": "a document of Microsoft Office",
    b"{\\rtf": "a document in RTF",
    b"SQLite format 3\x00": "a database of SQLite",
    b"ARROW1\x00\x00": "an Arrow file",
    b"Obj\x01": "an Avro file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "an array of NumPy",
    b"BZh91AY&SY": "compressed by bzip2",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"7z\xbc\xaf\x27\x1c": "an archive of 7-Zip",
    b"Rar!\x1a\x07": "an archive of RAR",
    b"\x80\x04\x95": "a pickle",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF87a": "a picture",
    b"GIF89a": "a picture",
}
"""By the first bytes of a file: what it is, of what is not read."""
TAR_MAGIC = slice(257, 262)
NO_FILE = "is no file, but a pipe or the like"
NESTED = 2
"""How often a file may be compressed."""


@dataclass
class Stream:
    """A file that is open.

    Attributes
    ----------
    file
        Its bytes, unpacked.
    kind
        ``Parquet``, ``tar``, ``ZIP`` or ``text``.
    head
        Its first bytes, which are still to be read.
    compression
        How it was compressed; empty if it was not.
    """

    file: BinaryIO
    kind: str
    head: bytes
    compression: str


@contextlib.contextmanager
def opened(raw: RawFile) -> Iterator[Stream]:
    """Open a file, and unpack it while it is read.

    Parameters
    ----------
    raw
        The file; not a folder.

    Raises
    ------
    DatasetError
        If it is truncated or corrupt, also while it is read, or is what nothing here reads.
    """
    if raw.path.exists() and not raw.path.is_file():
        raise raw.fault(NO_FILE, "save what it gives, and name that file")
    with raw.reading(), contextlib.ExitStack() as stack:
        file = _buffered(stack.enter_context(open(raw.path, "rb", 0)))
        compressions: list[str] = []
        while compression := _of_start(COMPRESSIONS, head := _head(file)):
            if len(compressions) == NESTED:
                raise raw.fault(f"is compressed more than {NESTED} times", "unpack it")
            compressions.append(compression)
            file = stack.enter_context(_unpacked(file, compression))
        if other := _of_start(OTHERS, head):
            raise raw.fault(
                f"is {other}, which is not read",
                "save its text as UTF-8 text, CSV, JSON lines or Parquet",
            )
        yield Stream(cast(BinaryIO, file), kind_of(head), head, " and ".join(compressions))


def kind_of(head: bytes) -> str:
    """What a file is by its first bytes, once it is unpacked; text if they say nothing."""
    if head[TAR_MAGIC] == b"ustar":
        return TAR
    return _of_start({**KINDS, **COMPRESSIONS, **OTHERS}, head) or TEXT


def _buffered(file: Any) -> io.BufferedReader:
    return io.BufferedReader(file, HEAD_BYTES)


def _head(file: io.BufferedReader) -> bytes:
    """The first bytes of a file, which are still to be read."""
    return file.peek(HEAD_BYTES)[:HEAD_BYTES]


def _of_start(kinds: dict[bytes, str], head: bytes) -> str:
    return next((kind for start, kind in kinds.items() if head.startswith(start)), "")


def _unpacked(file: io.BufferedReader, compression: str) -> io.BufferedReader:
    if compression == "gzip":
        # Unlike that of PyArrow, it compares the checksum at the end.
        return _buffered(gzip.GzipFile(fileobj=file, mode="rb"))
    import pyarrow as pa

    return _buffered(pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
