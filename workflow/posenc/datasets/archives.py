"""Archives that are the same bytes on every machine and with every version of a compressor."""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Iterable
from typing import BinaryIO, cast

BLOCK_BYTES = 0xFFFF


class StoredGzip:
    """Writes a gzip file (RFC 1952) of stored blocks (RFC 1951, 3.2.4).

    Parameters
    ----------
    file
        What is written to; it stays open.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting = b""
        self._crc = self._size = 0
        # Magic, deflate, no flags, time 0, no extra flags, unknown operating system.
        file.write(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")

    def write(self, content: bytes) -> int:
        """Take in more content."""
        self._crc = zlib.crc32(content, self._crc)
        self._size += len(content)
        self._waiting += content
        while len(self._waiting) > BLOCK_BYTES:
            self._block(is_last=False)
        return len(content)

    def close(self) -> None:
        """Write what is left, and the end."""
        self._block(is_last=True)
        self._file.write(struct.pack("<II", self._crc, self._size & 0xFFFFFFFF))

    def _block(self, is_last: bool) -> None:
        block, self._waiting = self._waiting[:BLOCK_BYTES], self._waiting[BLOCK_BYTES:]
        self._file.write(struct.pack("<BHH", is_last, len(block), len(block) ^ 0xFFFF))
        self._file.write(block)


def write_archive(file: BinaryIO, files: Iterable[tuple[str, bytes]]) -> None:
    """Write a ``.tar.gz``.

    Parameters
    ----------
    file
        What is written to.
    files
        Names and contents, in the order of the archive.
    """
    stream = StoredGzip(file)
    # A stream is only written to.
    written = cast(BinaryIO, stream)
    with tarfile.open(fileobj=written, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files:
            # A fresh TarInfo has time 0, owner 0 and mode 0644.
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    stream.close()
