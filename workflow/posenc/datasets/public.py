"""A published data set is known by its documents, whatever file holds them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

from posenc.datasets import folder
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
    checksum, splits = _read(raw, format)
    return checksum, splits.total()


def _read(raw: RawFile, format: Format) -> tuple[str, Counter[str]]:
    """The checksum of the documents, and how many each split has."""
    folder.check_format(raw.path, format, raw.instead)
    listing, splits = hashlib.sha256(), Counter[str]()
    for document in parse(raw, Content(format=format, text=AS_IT_IS)):
        line = [document["document_id"], document["split"], document["text"]]
        listing.update(f"{json.dumps(line)}\n".encode())
        splits[document["split"]] += 1
    return listing.hexdigest(), splits


def check(raw: RawFile, source: PublicSource, format: Format, name: str) -> Counter[str]:
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

    Returns
    -------
    Counter
        How many documents each split has.

    Raises
    ------
    DatasetError
        If they differ, or the file is damaged.
    """
    checksum, splits = _read(raw, format)
    if checksum != source.contents:
        raise DatasetError(
            f"{raw} is not the data set that was published at {source.url}: the checksum of its "
            f"{splits.total():,} documents is {checksum}, and datasets.{name}.source.contents in "
            f"params.yaml says {source.contents}; {raw.instead}"
        )
    return splits


def copy_here(source: PublicSource, name: str) -> Path | None:
    """Where this machine has a published data set: the user's copy first; None for nowhere."""
    places = [OWN_COPIES / name, *([Path(source.path)] if source.path is not None else [])]
    return next((place for place in places if place.exists()), None)


def own_copy(path: Path, name: str) -> RawFile:
    """A copy of a published data set on this machine, as messages name it."""
    if path == OWN_COPIES / name:
        return RawFile(path.resolve(), instead=f"name another copy: `posenc take {name} PATH`")
    other = f"name a copy of your own with `posenc take {name} PATH`, or move that file away"
    return RawFile(path, instead=other)
