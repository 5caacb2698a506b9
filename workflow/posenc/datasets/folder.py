"""A folder of reviews in the layout of the published archive, made such an archive.

The checksum of a folder is that of what ``sha256sum`` prints of its files, sorted by name::

    find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
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


def digest(folder: Path) -> str:
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
    for name in _files(folder):
        _add(listing, name, sha256_file(folder / name))
    return listing.hexdigest()


def pack(folder: Path, target: Path) -> str:
    """Write the reviews of a folder to an archive.

    Parameters
    ----------
    folder
        Holds ``train`` and ``test``, as the published ``aclImdb`` does; what is no review is left
        out of the archive.
    target
        The archive, a ``.tar.gz``.

    Returns
    -------
    str
        The checksum of the folder, of the very bytes that were packed.

    Raises
    ------
    DatasetError
        If there is no review, one is larger than is read, or there is a symbolic link.
    """
    listing = hashlib.sha256()
    with open(target, "wb") as file:
        write_archive(file, _reviews(folder, listing))
    return listing.hexdigest()


def _reviews(folder: Path, listing: Any) -> Iterator[tuple[str, bytes]]:
    """Reviews by their names in the archive; all files of the folder go into the listing."""
    total, count = 0, 0
    for name in _files(folder):
        path = folder / name
        if name.rpartition("/")[0] not in imdb.CELLS:
            _add(listing, name, sha256_file(path))
            continue
        size = path.stat().st_size
        total, count = total + size, count + 1
        imdb.check_size(folder, name, size, total)
        content = path.read_bytes()
        _add(listing, name, hashlib.sha256(content).hexdigest())
        yield f"{imdb.TOP}/{name}", content
    if not count:
        raise DatasetError(
            f"{folder} has no review in {', '.join(imdb.CELLS)}: name the folder in params.yaml "
            f"that holds train and test"
        )


def _add(listing: Any, name: str, sha256: str) -> None:
    listing.update(f"{sha256}  ./{name}\n".encode())


def _files(folder: Path) -> list[str]:
    """Names of the plain files of a folder, relative to it, in the order of their bytes."""
    names = []
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise DatasetError(
                f"{path} is a symbolic link; a folder of reviews holds plain files: put what it "
                f"leads to in its place, or remove it"
            )
        if path.is_file():
            names.append(path.relative_to(folder).as_posix())
    return sorted(names, key=str.encode)
