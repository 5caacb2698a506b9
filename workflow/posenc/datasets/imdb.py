"""Parse the Large Movie Review Dataset (Maas et al., 2011): the archive, or the hub's export."""

from __future__ import annotations

import gzip
import math
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc.datasets.errors import AGAIN, DatasetError
from posenc.datasets.parquet import read_hub_rows

SPLITS = ("train", "test", "unsup")
TOP = "aclImdb"
"""The folder at the top of an archive."""
# Split and label of the folders below it.
CELLS = {
    "train/pos": ("train", "pos"),
    "train/neg": ("train", "neg"),
    "test/pos": ("test", "pos"),
    "test/neg": ("test", "neg"),
    "train/unsup": ("unsup", None),
}
REVIEW_BYTES, REVIEWS_BYTES = 10_000_000, 1_000_000_000
"""What one review of an archive may have, and all together: a small archive can hold any size."""
HEADER_BYTES = 1 << 20
"""What may lie between two files of an archive."""
KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.DIRTYPE: "a folder",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
}
"""What an archive can hold beside files."""
HUB_LABELS = {0: "neg", 1: "pos", -1: None}
_FILE_NAME = re.compile(r"(\d+)_(\d{1,2})\.txt")


def parse(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of an archive or of a hub export, ordered by split and numeric id.

    Parameters
    ----------
    path
        ``.tar.gz`` with the layout of the published archive, or a ``.parquet`` with the hub's
        columns ``text``, ``label`` and ``split``.

    Raises
    ------
    DatasetError
        If the file is damaged or not of this format.
    """
    path = Path(path)
    yield from _parse_hub(path) if path.suffix == ".parquet" else _parse_archive(path)


class _Bounded(gzip.GzipFile):
    """A stream of which only so many bytes are read as were allowed.

    ``tarfile`` reads headers into memory, whatever size they say they have.
    """

    allowed: float = HEADER_BYTES

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self.allowed -= len(content)
        if self.allowed < 0:
            raise DatasetError(
                f"{self.name} has more than {HEADER_BYTES:,} bytes of headers between two files: "
                f"it is no archive of reviews; name the right file in params.yaml"
            )
        return content


def _parse_archive(path: Path) -> Iterator[dict[str, Any]]:
    found: dict[tuple, dict[str, Any]] = {}
    total = 0
    try:
        # Python's own stream mode for gzip neither checks the CRC nor minds a missing end.
        with _Bounded(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                archive.members.clear()  # a list of all headers is as large as the reviews
                name = member.name.removeprefix("./")
                cell = _cell(path, member, name)
                stream.allowed = member.size + HEADER_BYTES
                if cell is None:
                    continue
                total += member.size
                check_size(path, name, member.size, total)
                document = _document(path, name, cell, archive.extractfile(member).read())
                order = (SPLITS.index(document["split"]), document.pop("number"), name)
                if order in found:
                    raise DatasetError(f"{path} holds {name} twice; {AGAIN}")
                found[order] = document
            stream.allowed = math.inf
            while stream.read(1 << 20):
                pass
    except (EOFError, tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
        raise DatasetError(f"{path} is truncated or corrupt ({error}); {AGAIN}") from error
    if not found:
        raise DatasetError(
            f"{path} is an archive without aclImdb/{{train,test}}/{{pos,neg}}/*.txt; "
            f"format: imdb needs the published layout: name the right file in params.yaml"
        )
    for order in sorted(found):
        yield found[order]


def _cell(path: Path, member: tarfile.TarInfo, name: str) -> tuple[str, str | None] | None:
    """Split and label of a review; None for another file, and for a folder."""
    root, _, rest = name.partition("/")
    cell = CELLS.get(rest.rpartition("/")[0]) if root == TOP else None
    is_file = member.isreg() and not member.issparse()
    if not is_file and (cell is not None or not member.isdir()):
        kind = "a sparse file" if member.issparse() else KINDS.get(member.type, "of another kind")
        raise DatasetError(
            f"{path}: {name} is {kind}; an archive of reviews holds plain files: make it again "
            f"with files in the place of links, or without {name}"
        )
    return cell


def check_size(path: Path, name: str, size: int, total: int) -> None:
    """Refuse a review before it is read into memory, by the size that is said of it.

    Parameters
    ----------
    path
        The archive or folder, for messages.
    name
        Of the review.
    size, total
        Its bytes, and those of all reviews up to it.

    Raises
    ------
    DatasetError
        If either is more than is read.
    """
    for key, limit, found, what in (
        ("REVIEW_BYTES", REVIEW_BYTES, size, f"{name} has"),
        ("REVIEWS_BYTES", REVIEWS_BYTES, total, f"the reviews up to {name} have"),
    ):
        if not 0 <= found <= limit:
            raise DatasetError(
                f"{path}: {what} {found:,} bytes, more than the {limit:,} that are read: leave "
                f"out what is no review, or raise {key} in workflow/posenc/datasets/imdb.py"
            )


def _document(path: Path, name: str, cell: tuple[str, str | None], content: bytes) -> dict:
    directory, _, file_name = name.removeprefix(f"{TOP}/").rpartition("/")
    split, label = cell
    match = _FILE_NAME.fullmatch(file_name)
    if match is None or int(match[2]) > 10:
        raise DatasetError(
            f"{path}: {name} is not named ID_RATING.txt with a rating from 0 to 10; {AGAIN}, or "
            f"name an archive with the published layout in params.yaml"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}: {name} is not UTF-8 (byte {error.start}: {error.reason}); {AGAIN}"
        ) from error
    if not text.strip():
        raise DatasetError(f"{path}: {name} is empty; {AGAIN}")
    return {
        "document_id": f"{split if label is None else directory}/{file_name.removesuffix('.txt')}",
        "split": split,
        "text": text,
        "label": label,
        # The published archive writes 0 where the rating is withheld.
        "rating": int(match[2]) or None,
        "file": name,
        "number": int(match[1]),
    }


def _parse_hub(path: Path) -> Iterator[dict[str, Any]]:
    for row in read_hub_rows(path, ("text", "label"), SPLITS, {"unsupervised": "unsup"}):
        split, number = row["split"], row["number"]
        if row["label"] not in HUB_LABELS:
            raise DatasetError(
                f"{path}: row {number} of {split} has the label {row['label']!r}; "
                f"format: imdb knows 0 (neg), 1 (pos) and -1 (none): check source.id in params.yaml"
            )
        if not row["text"] or not row["text"].strip():
            raise DatasetError(f"{path}: row {number} of {split} has an empty text; {AGAIN}")
        yield {
            "document_id": f"{split}/{number:05d}",
            "split": split,
            "text": row["text"],
            "label": HUB_LABELS[row["label"]],
        }
