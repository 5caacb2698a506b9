"""A folder of texts, made an archive: reviews in the layout of the published one, or files of text.

The checksum of a folder is that of what ``sha256sum`` prints of its files, sorted by name, without
those that systems leave in folders::

    find . -type f ! -name .DS_Store ! -name '._*' ! -name Thumbs.db ! -name desktop.ini \\
      ! -path '*/__MACOSX/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc.artifacts.files import sha256_file
from posenc.datasets import imdb
from posenc.datasets.archives import write_archive
from posenc.datasets.errors import DatasetError
from posenc.datasets.members import plain_files
from posenc.datasets.raw_file import RawFile

FORMATS = ("imdb", "text")
"""Those that read a folder."""


def check_format(path: Path, format: str, cure: str) -> None:
    """Refuse a folder that a format does not read.

    Parameters
    ----------
    path
        A file or a folder.
    format
        Of the data set.
    cure
        What to do about it, for the message.

    Raises
    ------
    DatasetError
        If it is a folder, and the format is none of :data:`FORMATS`.
    """
    if path.is_dir() and format not in FORMATS:
        raise DatasetError(
            f"{path}: is a folder, which format: {format} does not read "
            f"({' and '.join(FORMATS)} do); {cure}"
        )


def digest(folder: RawFile) -> str:
    """The checksum of a folder.

    Parameters
    ----------
    folder
        Holds plain files and folders.

    Returns
    -------
    str
        SHA-256, in hexadecimal digits.

    Raises
    ------
    DatasetError
        If there is a symbolic link in it.
    """
    listing = hashlib.sha256()
    for name in plain_files(folder):
        _add(listing, name, sha256_file(folder.path / name))
    return listing.hexdigest()


def pack(folder: RawFile, target: Path, format: str) -> str:
    """Write the texts of a folder to an archive.

    Parameters
    ----------
    folder
        Of reviews, it holds ``train`` and ``test``, as the published ``aclImdb`` does, and what is
        no review is left out of the archive.
    target
        The archive, a ``.tar.gz``.
    format
        One of :data:`FORMATS`.

    Returns
    -------
    str
        The checksum of the folder, of the very bytes that were packed.

    Raises
    ------
    DatasetError
        If there is no text, one is larger than is read, or there is a symbolic link.
    """
    listing = hashlib.sha256()
    with open(target, "wb") as file:
        write_archive(file, _texts(folder, listing, format))
    return listing.hexdigest()


def _texts(folder: RawFile, listing: Any, format: str) -> Iterator[tuple[str, bytes]]:
    """Texts by their names in the archive; all files of the folder go into the listing."""
    total, count = 0, 0
    for name in plain_files(folder):
        path = folder.path / name
        if format == "imdb" and imdb.cell_of(name, top="") is None:
            _add(listing, name, sha256_file(path))
            continue
        size = path.stat().st_size
        total, count = total + size, count + 1
        imdb.check_size(folder, name, size if format == "imdb" else 0, total)
        content = path.read_bytes()
        _add(listing, name, hashlib.sha256(content).hexdigest())
        yield f"{imdb.TOP}/{name}" if format == "imdb" else name, content
    if not count:
        what = f"no review in {', '.join(imdb.CELLS)}" if format == "imdb" else "no file"
        holds = "train and test" if format == "imdb" else "texts"
        raise folder.fault(f"has {what}", f"name the folder in params.yaml that holds {holds}")


def _add(listing: Any, name: str, sha256: str) -> None:
    listing.update(f"{sha256}  ./{name}\n".encode())
