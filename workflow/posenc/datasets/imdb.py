"""Parse labelled reviews: the archive of Maas et al. (2011), or any table with labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc.datasets import section, streams
from posenc.datasets.errors import DatasetError, listed, shown
from posenc.datasets.fields import Document
from posenc.datasets.members import Member, kind_of, members
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import Row, Table, split_of, text_column, text_of
from posenc.datasets.tables import table_of
from posenc.datasets.text_files import SAVE, checked

SPLITS = section.SPLITS["imdb"]
DEFAULT = "test"
"""The split of a row that names none."""
ALIASES = {"unsupervised": "unsup"}
"""What the hub calls a split."""
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
TEXTS, LABELS = ("text", "review"), ("label", "sentiment")
"""Columns of a table, unless others are named."""
MEANINGS: dict[Any, str | None] = {
    **dict.fromkeys((0, "0", "neg", "negative"), "neg"),
    **dict.fromkeys((1, "1", "pos", "positive"), "pos"),
    **dict.fromkeys((-1, "-1", "unsup", "", None), None),
}
"""What the values of a column of labels mean."""
_FILE_NAME = re.compile(r"(\d+)_(\d{1,2})\.txt")


def parse(
    file: RawFile | Path, column: str | None = None, label: str | None = None
) -> Iterator[Document]:
    """Yield reviews: of an archive by split and numeric id, of a table in its order.

    Parameters
    ----------
    file
        An archive (tar or ZIP, compressed or not) or a folder with the layout of the published
        archive, or a table with a column of texts and one of labels, which may have ``split``.
    column, label
        Those columns; without them ``text`` or ``review``, and ``label`` or ``sentiment``.

    Raises
    ------
    DatasetError
        If the file is damaged or not of this format.
    """
    raw = RawFile.of(file)
    if kind_of(raw) in (streams.PARQUET, streams.TEXT):
        yield from _parse_table(raw, column, label)
    else:
        yield from _parse_archive(raw)


def _parse_archive(raw: RawFile) -> Iterator[Document]:
    reviews: dict[tuple[int, int, str], Document] = {}
    top = "" if raw.path.is_dir() else f"{TOP}/"
    total = 0
    for member in members(raw):
        name = member.name
        cell = _cell(raw, member, top)
        if cell is None:
            continue
        total += member.size
        check_size(raw, name, member.size, total)
        number, document = _document(raw, f"{TOP}/{name.removeprefix(top)}", cell, member.read())
        order = (SPLITS.index(document["split"]), number, name)
        if order in reviews:
            raise raw.fault(f"holds {name} twice", "make the archive again")
        reviews[order] = document
    if not reviews:
        raise raw.fault(
            f"has no review in {top}{{train,test}}/{{pos,neg}}, where format: imdb reads them",
            "name a file or folder with the published layout",
        )
    for order in sorted(reviews):
        yield reviews[order]


def cell_of(name: str, top: str = f"{TOP}/") -> tuple[str, str | None] | None:
    """Split and label of a file of the published archive by its name; None if it is no review."""
    if not name.startswith(top):
        return None
    return CELLS.get(name.removeprefix(top).rpartition("/")[0])


def _cell(raw: RawFile, member: Member, top: str) -> tuple[str, str | None] | None:
    """Split and label of a review; None for another file, and for a folder."""
    cell = cell_of(member.name, top)
    if member.kind and (cell is not None or member.kind != "a folder"):
        raise raw.fault(
            f"{member.name} is {member.kind}, and an archive of reviews holds plain files",
            f"make it again with files in the place of links, or without {member.name}",
        )
    return cell


def check_size(raw: RawFile, name: str, size: int, total: int) -> None:
    """Refuse a review before it is read into memory, by the size that is said of it.

    Parameters
    ----------
    raw
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
    for key, limit, size_said, what in (
        ("REVIEW_BYTES", REVIEW_BYTES, size, f"{name} has"),
        ("REVIEWS_BYTES", REVIEWS_BYTES, total, f"the reviews up to {name} have"),
    ):
        if not 0 <= size_said <= limit:
            raise raw.fault(
                f"{what} {size_said:,} bytes, more than the {limit:,} that are read",
                f"leave out what is no review, or raise {key} in workflow/posenc/datasets/imdb.py",
            )


def _document(
    raw: RawFile, name: str, cell: tuple[str, str | None], content: bytes
) -> tuple[int, Document]:
    """The number of a review in its folder, and the review."""
    directory, _, file_name = name.removeprefix(f"{TOP}/").rpartition("/")
    split, label = cell
    match = _FILE_NAME.fullmatch(file_name)
    if match is None or int(match[2]) > 10:
        raise raw.fault(
            f"{name} is not named ID_RATING.txt with a rating from 0 to 10",
            "rename or remove it",
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise raw.fault(
            f"{name}, line {line}, is not UTF-8 (byte {error.start}: {error.reason})", SAVE
        ) from error
    for number, line_text in enumerate(text.split("\n"), start=1):
        checked(raw, f"{name}, line {number},", line_text)
    if not text.strip():
        raise raw.fault(f"{name} is empty", "remove it, or write a review into it")
    return int(match[1]), {
        "document_id": f"{split if label is None else directory}/{file_name.removesuffix('.txt')}",
        "split": split,
        "text": text,
        "label": label,
        # The published archive writes 0 where the rating is withheld.
        "rating": int(match[2]) or None,
        "file": name,
    }


def _parse_table(raw: RawFile, column: str | None, label: str | None) -> Iterator[Document]:
    named = [name for name in (column, label) if name is not None]
    table = table_of(raw, SPLITS, ALIASES, named)
    if table.is_plain:
        raise raw.fault(
            "is plain text, and format: imdb reads an archive or a table with labels",
            "choose format: text, or name another file",
        )
    texts = text_column(raw, table, column, TEXTS)
    labels = label_column(raw, table, label)
    counts: Counter[str] = Counter()
    for row in table.read((texts, labels)):
        split = split_of(raw, row, SPLITS, DEFAULT, ALIASES)
        yield {
            "document_id": f"{split}/{counts[split]:05d}",
            "split": split,
            "text": text_of(raw, row, texts),
            "label": _label(raw, row, labels),
        }
        counts[split] += 1
    if not counts:
        raise raw.fault("holds no review", "write one per row")


def label_column(raw: RawFile, table: Table, label: str | None) -> str:
    """The column of labels.

    Raises
    ------
    DatasetError
        If there is none.
    """
    candidates = LABELS if label is None else (label,)
    for name in candidates:
        if name in table.columns:
            return name
    raise DatasetError(
        f"{raw} has no column {' or '.join(map(repr, candidates))} (it has "
        f"{listed(table.columns)}): name the one with the labels as label: in params.yaml, or take "
        f"format: text, which needs none"
    )


def _label(raw: RawFile, row: Row, column: str) -> str | None:
    value = row.values.get(column)
    meant = value.strip().casefold() if isinstance(value, str) else value
    try:
        return MEANINGS[meant]
    except (KeyError, TypeError):
        raise raw.fault(
            f"{row.where}, column {column!r} holds {shown(value)}, and labels are 0, neg or "
            f"negative, 1, pos or positive, or -1 for none"
        ) from None
