"""Parse documents of any text: lines, the rows of a table, or the files of a folder."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NotRequired, TypedDict

from posenc.datasets import section, streams
from posenc.datasets.fields import Document
from posenc.datasets.imdb import check_size
from posenc.datasets.members import kind_of, members
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import PLAIN, SPLIT, TEXT, split_of, text_column, text_of
from posenc.datasets.tables import check_start, table_of, text_kind
from posenc.datasets.text_files import LINE_BYTES, SAVE, checked, encoding_of

SPLITS = section.SPLITS["text"]
DEFAULT = "test"
"""The split of a document that names none."""


class _Unnumbered(TypedDict):
    """A document that has no name yet."""

    split: str
    text: str
    file: NotRequired[str]


_SPLIT_NAME = re.compile(
    r"(train(ing)?|test(ing)?|val(id(ation)?)?|dev|unsup(ervised)?)"
    r"([-_.]?\d+(-of-\d+)?)?(\.\w+)*",
    re.IGNORECASE,
)
"""Names of folders and files that are those of a split, as the hub gives them."""


def parse(file: RawFile | Path, column: str | None = None) -> Iterator[Document]:
    """Yield the documents of a file in its order; those of a Parquet file split by split.

    Parameters
    ----------
    file
        A table (Parquet, CSV, tab-separated values, JSON lines, a JSON array of objects) that has a
        column of texts and may have ``split``; plain text, of which every line that is not blank is
        a document of the split ``test``; or a folder or archive of plain text, of which every file
        is one, or of tables.
    column
        The column of texts; without it ``text``, or the only one that holds text.

    Raises
    ------
    DatasetError
        If the file is damaged, has no document, or a line is too long or not what it should be.
    """
    raw = RawFile.of(file)
    documents = _of_table if kind_of(raw) in (streams.PARQUET, streams.TEXT) else _of_folder
    counts: Counter[str] = Counter()
    for document in documents(raw, column):
        split = document["split"]
        yield {"document_id": f"{split}/{counts[split]:07d}", **document}
        counts[split] += 1
    if not counts:
        raise raw.fault("holds no document", "write one per line")


def _of_table(raw: RawFile, column: str | None) -> Iterator[_Unnumbered]:
    table = table_of(raw, SPLITS, named=() if column is None else (column,))
    name = text_column(raw, table, column, (TEXT,))
    for row in table.read((name,)):
        split = split_of(raw, row, SPLITS, DEFAULT, {})
        yield {"split": split, "text": text_of(raw, row, name)}


def _of_folder(raw: RawFile, column: str | None) -> Iterator[_Unnumbered]:
    """The texts of a folder or archive, or the rows of all tables if it is tables that it holds."""
    first: tuple[str, str] | None = None
    names: set[str] = set()
    splits: dict[str, str] = {}
    size = 0
    for member in members(raw):
        if member.kind == "a folder":
            continue
        name, size = member.name, size + member.size
        if member.kind:
            raise raw.fault(f"{name} is {member.kind}, and a folder of texts holds plain files")
        if name in names:
            raise raw.fault(f"holds {name} twice", "make the archive again")
        names.add(name)
        if any(part.startswith(".") for part in PurePosixPath(name).parts):
            raise raw.fault(f"{name} is hidden, and a folder of texts holds none", "remove it")
        # A table is longer than a text may be, which is looked at below.
        check_size(raw, name, 0, size)
        content = member.read()
        kind = _kind_of(raw, name, content, column)
        first = first or (name, kind)
        if (kind == PLAIN) != (first[1] == PLAIN):
            raise raw.fault(
                f"{name} is {_said(kind)}, and {first[0]} is {_said(first[1])}",
                "put texts and tables into folders of their own",
            )
        if kind != PLAIN:
            yield from _of_member(raw, name, content, column, splits)
        elif column is None:
            _check_split(raw, name, splits)
            yield {"split": DEFAULT, "text": _document(raw, name, content), "file": name}
        else:
            raise raw.fault(f"has no table, and column: names {column!r}", "leave out column:")


def _kind_of(raw: RawFile, name: str, content: bytes, column: str | None) -> str:
    """What a file of a folder is: plain text, or a kind of table."""
    kind = streams.kind_of(content)
    if kind == streams.TEXT:
        codec, _ = encoding_of(content)
        sample = content[: streams.HEAD_BYTES]
        text = sample.decode(codec, errors="ignore")
        is_whole, named = len(sample) == len(content), () if column is None else (column,)
        kind = text_kind(text, is_whole, named)
        check_start(raw, kind, text, is_whole, named, name)
        return kind
    if kind != streams.PARQUET:
        raise raw.fault(f"{name} is {kind}, and a folder holds plain text, or tables")
    return kind


def _said(kind: str) -> str:
    return kind if kind == PLAIN else f"a table ({kind})"


def _check_split(raw: RawFile, name: str, splits: dict[str, str]) -> None:
    """Refuse files that are called as several splits where none says of which one it is.

    Parameters
    ----------
    raw, name
        The folder or archive, and a file of it.
    splits
        By the first letters of the splits of the files up to it, the first file of each.
    """
    for part in PurePosixPath(name).parts:
        if match := _SPLIT_NAME.fullmatch(part):
            splits.setdefault(match[1][:3].lower(), name)
    if len(splits) > 1:
        one, other = splits.values()
        raise raw.fault(
            f"{one} and {other} are called as two splits, and without a column {SPLIT!r} all are "
            f"read as {DEFAULT}",
            "name the file or folder of one split, or write tables with that column",
        )


def _of_member(
    raw: RawFile, name: str, content: bytes, column: str | None, splits: dict[str, str]
) -> Iterator[_Unnumbered]:
    """The rows of a table in a folder or archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table")
        path.write_bytes(content)
        table = dataclasses.replace(raw, path=path, name=f"{raw}/{name}")
        if SPLIT not in table_of(table, SPLITS).columns:
            _check_split(raw, name, splits)
        for document in _of_table(table, column):
            yield {**document, "file": name}


def _document(raw: RawFile, name: str, content: bytes) -> str:
    """The text of a file.

    Raises
    ------
    DatasetError
        If it is too long, empty, or no UTF-8.
    """
    if len(content) > LINE_BYTES:
        raise raw.fault(f"{name} has {len(content):,} bytes, more than {LINE_BYTES:,}", "divide it")
    codec, _ = encoding_of(content)
    try:
        text = content.decode(codec, errors="surrogateescape")
    except UnicodeError as error:
        raise raw.fault(f"{name} is no text ({error})", SAVE) from error
    for number, line in enumerate(text.split("\n"), start=1):
        checked(raw, f"{name}, line {number},", line)
    if not text.strip():
        raise raw.fault(f"{name} is empty", "remove it, or write a text into it")
    return text.replace("\r\n", "\n").strip("\n")
