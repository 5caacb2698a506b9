"""Files of a folder, of a tar archive or of a ZIP archive, one after the other."""

from __future__ import annotations

import functools
import io
import math
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Self, cast

from posenc.datasets.raw_file import RawFile
from posenc.datasets.streams import NO_FILE, TAR, ZIP, Stream, opened

HEADER_BYTES = 1 << 20
"""What may lie between two files of a tar archive."""
FOLDER = "folder"
KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.DIRTYPE: "a folder",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
}
"""What an archive can hold beside files."""
OFFICE = {"[Content_Types].xml", "mimetype", "META-INF/container.xml"}
"""In documents of Office Open XML, OpenDocument and EPUB, which are ZIP archives."""


@dataclass
class Member:
    """A file of an archive.

    Attributes
    ----------
    name
        With the folders that it lies in.
    size
        Its bytes, as the archive says.
    kind
        What it is if it is no plain file.
    read
        Its bytes; to be called before the next member is asked for.
    """

    name: str
    size: int
    kind: str
    read: Callable[[], bytes]


def kind_of(raw: RawFile) -> str:
    """``folder``, or what a file is: ``tar``, ``ZIP``, ``Parquet`` or ``text``."""
    if raw.path.is_dir():
        return FOLDER
    with opened(raw) as stream:
        return stream.kind


def members(raw: RawFile) -> Iterator[Member]:
    """Yield what a folder or archive holds; what systems leave in folders is counted and left out.

    Parameters
    ----------
    raw
        A folder, or an archive, compressed or not.

    Raises
    ------
    DatasetError
        If it is damaged, encrypted, a document of an office program, or no archive.
    """
    for member in _of_folder(raw) if raw.path.is_dir() else _of_archive(raw):
        if not raw.is_junk(member.name):
            _check_name(raw, member.name)
            yield member


def plain_files(folder: RawFile) -> list[str]:
    """Names of the files of a folder, relative to it, in the order of their bytes.

    Raises
    ------
    DatasetError
        If there is a symbolic link in it, a pipe, or a name that is not UTF-8.
    """
    names = []
    for path in folder.path.rglob("*"):
        name = path.relative_to(folder.path).as_posix()
        if path.is_symlink():
            raise folder.fault(
                f"{name} is a symbolic link, and a folder of texts holds plain files",
                "put what it leads to in its place, or remove it",
            )
        if path.is_dir() or folder.is_junk(name):
            continue
        _check_name(folder, name)
        if not path.is_file():
            raise folder.fault(f"{name} {NO_FILE}", "remove it")
        names.append(name)
    return sorted(names, key=str.encode)


def _check_name(raw: RawFile, name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise raw.fault(
            f"holds a file with the name {name!a}, which is not UTF-8", "rename it"
        ) from None


def _of_folder(raw: RawFile) -> Iterator[Member]:
    for name in plain_files(raw):
        path = raw.path / name
        yield Member(name, path.stat().st_size, "", path.read_bytes)


def _of_archive(raw: RawFile) -> Iterator[Member]:
    with opened(raw) as stream:
        if stream.kind == TAR:
            yield from _of_tar(raw, stream)
        elif stream.kind == ZIP:
            yield from _of_zip(raw, stream)
        else:
            raise raw.fault("is neither an archive (.tar.gz, .zip) nor a folder", "name one")


class _Bounded:
    """A stream of which only so many bytes are read as were allowed.

    ``tarfile`` reads headers into memory, whatever size they say they have.
    """

    def __init__(self, raw: RawFile, file: BinaryIO) -> None:
        self._raw, self._file = raw, file
        self.allowed: float = HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self.allowed -= len(content)
        if self.allowed < 0:
            raise self._raw.fault(
                f"has more than {HEADER_BYTES:,} bytes of headers between two files",
                "name an archive of texts",
            )
        return content


class _Header(tarfile.TarInfo):
    """A header; where none is, an archive is damaged, unless zeros say that it ends.

    ``tarfile`` takes what is no header, and the end of the file, for the end of the archive.
    """

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            # Typeshed lacks it, as it is not documented.
            if isinstance(error, tarfile.EOFHeaderError):  # type: ignore[attr-defined]
                raise
            raise tarfile.ReadError(
                f"neither a file nor the end of the archive is at byte {archive.offset:,}: {error}"
            ) from error


def _of_tar(raw: RawFile, stream: Stream) -> Iterator[Member]:
    bounded = _Bounded(raw, stream.file)
    # Python's own stream mode for gzip neither checks the CRC nor minds a missing end.
    with tarfile.open(fileobj=cast(BinaryIO, bounded), mode="r|", tarinfo=_Header) as archive:
        for header in archive:
            # A list of all headers is as large as the texts.
            archive.members.clear()  # type: ignore[attr-defined]
            bounded.allowed = header.size + HEADER_BYTES
            kind = "" if header.isreg() else KINDS.get(header.type, "of another kind")
            kind = "a sparse file" if header.issparse() else kind
            read = functools.partial(_read, raw, archive.extractfile, header)
            yield Member(header.name.removeprefix("./"), header.size, kind, read)
        bounded.allowed = math.inf
        # Also to the end of what it is compressed by, which has a checksum.
        while rest := archive.fileobj.read(1 << 20):
            if rest.strip(b"\0"):
                raise raw.fault("holds more behind its end, which is not read", "make it again")


def _read(raw: RawFile, extract: Callable[[Any], Any], header: Any) -> bytes:
    with raw.reading(), extract(header) as file:
        return file.read()


def _of_zip(raw: RawFile, stream: Stream) -> Iterator[Member]:
    file = io.BytesIO(stream.file.read()) if stream.compression else stream.file
    with zipfile.ZipFile(file) as archive:
        headers = archive.infolist()
        if any(header.filename in OFFICE for header in headers):
            raise raw.fault(
                "is a document of an office program, which is not read",
                "save it as text or CSV in UTF-8",
            )
        for header in headers:
            if header.flag_bits & 1:
                raise raw.fault(f"{header.filename} is encrypted", "make it without a password")
            kind = "a folder" if header.is_dir() else ""
            kind = "a symbolic link" if stat.S_ISLNK(header.external_attr >> 16) else kind
            name = header.filename.removeprefix("./").rstrip("/")
            read = functools.partial(_read, raw, archive.open, header)
            yield Member(name, header.file_size, kind, read)
