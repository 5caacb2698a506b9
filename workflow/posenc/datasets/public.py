"""A published data set is known by its documents, whatever file holds them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from posenc.artifacts.files import atomic_file
from posenc.datasets import folder
from posenc.datasets.download import copy, download
from posenc.datasets.errors import DatasetError
from posenc.datasets.parsing import parse
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import Content, Format, PublicSource, Text

AS_IT_IS = Text(line_breaks="keep", normalization="none")
OWN_COPIES = Path(".cache/texts")
"""Where ``posenc take`` leaves links to copies that the user has, by the data set's key."""


def digest(raw: RawFile, format: Format) -> tuple[str, int]:
    """The checksum of a data set's documents, and their number.

    Parameters
    ----------
    raw
        A file or folder of the data set.
    format
        Of the data set.

    Returns
    -------
    str, int
        SHA-256 of the documents in their order, each a line of JSON with its identity, its split
        and its text before it is cleaned. How the file is packed, and what else it holds, does not
        count.

    Raises
    ------
    DatasetError
        If the file is damaged or not of this format.
    """
    listing, count = hashlib.sha256(), 0
    for document in parse(raw, Content(format=format, text=AS_IT_IS)):
        line = [document["document_id"], document["split"], document["text"]]
        listing.update(f"{json.dumps(line)}\n".encode())
        count += 1
    return listing.hexdigest(), count


def check(raw: RawFile, source: PublicSource, format: Format, name: str) -> None:
    """Compare a file's documents with those that were published.

    Parameters
    ----------
    raw
        The file or folder.
    source
        What was published, and where.
    format
        Of the data set.
    name
        The data set's key in ``params.yaml``, for messages.

    Raises
    ------
    DatasetError
        If they differ, or the file is damaged.
    """
    found, count = digest(raw, format)
    if found != source.contents:
        raise DatasetError(
            f"{raw} is not the data set that was published at {source.url}: the checksum of its "
            f"{count:,} documents is {found}, and datasets.{name}.source.contents in params.yaml "
            f"says {source.contents}; {raw.instead}"
        )


def place_of(source: PublicSource, name: str) -> Path | None:
    """Where this machine has a published data set: the user's copy first; None for nowhere."""
    places = [OWN_COPIES / name, *([Path(source.path)] if source.path is not None else [])]
    return next((place for place in places if place.exists()), None)


def own_copy(path: Path, name: str) -> RawFile:
    """A copy of a published data set on this machine, as messages name it."""
    if path == OWN_COPIES / name:
        return RawFile(path.resolve(), instead=f"name another copy: `posenc take {name} PATH`")
    other = f"name a copy of your own with `posenc take {name} PATH`, or move that file away"
    return RawFile(path, instead=other)


def fetch(source: PublicSource, format: Format, target: Path, name: str) -> None:
    """Copy a published data set from this machine, or download it, and recognise its documents.

    Parameters
    ----------
    source, format, name
        As :func:`check`.
    target
        Where the file goes; it appears whole and recognised, or not at all.

    Raises
    ------
    DatasetError
        If it cannot be had, or its documents are others.
    """
    place = place_of(source, name)
    if place is None:
        cure = f"get it with a browser, and name your copy with `posenc take {name} PATH`"

        def recognise(part: Path) -> None:
            check(RawFile(part, source.url, instead=cure), source, format, name)

        download(source.url, recognise, target, key=f"datasets.{name}.source")
        return
    own = own_copy(place, name)
    with atomic_file(target) as temporary:
        if own.path.is_dir():
            folder.pack(own, temporary, format)
        else:
            copy(own.path, temporary)
        check(RawFile(temporary, own.name, instead=own.instead), source, format, name)
