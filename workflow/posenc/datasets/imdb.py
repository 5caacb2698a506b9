"""Parse the Large Movie Review Dataset (Maas et al., 2011): the archive, or the hub's export."""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import DatasetError
from .parquet import read_hub_rows

SPLITS = ("train", "test", "unsup")
# Split and label of the directories below aclImdb/.
CELLS = {
    "train/pos": ("train", "pos"),
    "train/neg": ("train", "neg"),
    "test/pos": ("test", "pos"),
    "test/neg": ("test", "neg"),
    "train/unsup": ("unsup", None),
}
HUB_LABELS = {0: "neg", 1: "pos", -1: None}
_FILE_NAME = re.compile(r"(\d+)_(\d{1,2})\.txt")
_AGAIN = "delete it and run again to fetch it anew"


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


def _parse_archive(path: Path) -> Iterator[dict[str, Any]]:
    found: dict[tuple, dict[str, Any]] = {}
    try:
        # Python's own stream mode for gzip neither checks the CRC nor minds a missing end.
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                cell = CELLS.get(name.removeprefix("aclImdb/").rpartition("/")[0])
                if cell is None or not name.startswith("aclImdb/") or not member.isfile():
                    continue
                document = _document(path, name, cell, archive.extractfile(member).read())
                order = (SPLITS.index(document["split"]), document.pop("number"), name)
                if order in found:
                    raise DatasetError(f"{path} holds {name} twice; {_AGAIN}")
                found[order] = document
            while stream.read(1 << 20):
                pass
    except (EOFError, tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
        raise DatasetError(f"{path} is truncated or corrupt ({error}); {_AGAIN}") from error
    if not found:
        raise DatasetError(
            f"{path} is an archive without aclImdb/{{train,test}}/{{pos,neg}}/*.txt; "
            f"format: imdb needs the published layout: name the right file in params.yaml"
        )
    for order in sorted(found):
        yield found[order]


def _document(path: Path, name: str, cell: tuple[str, str | None], content: bytes) -> dict:
    directory, _, file_name = name.removeprefix("aclImdb/").rpartition("/")
    split, label = cell
    match = _FILE_NAME.fullmatch(file_name)
    if match is None or int(match[2]) > 10:
        raise DatasetError(
            f"{path}: {name} is not named ID_RATING.txt with a rating from 0 to 10; {_AGAIN}, or "
            f"name an archive with the published layout in params.yaml"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}: {name} is not UTF-8 (byte {error.start}: {error.reason}); {_AGAIN}"
        ) from error
    if not text.strip():
        raise DatasetError(f"{path}: {name} is empty; {_AGAIN}")
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
            raise DatasetError(f"{path}: row {number} of {split} has an empty text; {_AGAIN}")
        yield {
            "document_id": f"{split}/{number:05d}",
            "split": split,
            "text": row["text"],
            "label": HUB_LABELS[row["label"]],
        }
