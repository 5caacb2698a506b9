"""Parse documents of any text: lines, the rows of a table, or the files of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc.datasets import section, streams
from posenc.datasets.members import Member, kind_of, members
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import PLAIN, TEXT, split_of, text_column, text_of
from posenc.datasets.tables import table_of, text_kind
from posenc.datasets.text_files import LINE_BYTES, SAVE, checked, encoding_of

SPLITS = section.SPLITS["text"]
DEFAULT = "test"
"""The split of a document that names none."""


def parse(file: RawFile | Path, column: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file in its order; those of a Parquet file split by split.

    Parameters
    ----------
    file
        A table (Parquet, CSV, tab-separated values, JSON lines, a JSON array of objects) that has a
        column of texts and may have ``split``; plain text, of which every line that is not blank is
        a document of the split ``test``; or a folder or archive of plain text, of which every file
        is one.
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


def _of_table(raw: RawFile, column: str | None) -> Iterator[dict[str, Any]]:
    table = table_of(raw, SPLITS, named=() if column is None else (column,))
    name = text_column(raw, table, column, (TEXT,))
    for row in table.read((name,)):
        split = split_of(raw, row, SPLITS, DEFAULT, {})
        yield {"split": split, "text": text_of(raw, row, name)}


def _of_folder(raw: RawFile, column: str | None) -> Iterator[dict[str, Any]]:
    if column is not None:
        raise raw.fault(f"is no table, and column: names {column!r}", "leave out column:")
    for member in members(raw):
        if member.kind == "a folder":
            continue
        yield {"split": DEFAULT, "text": _document(raw, member), "file": member.name}


def _document(raw: RawFile, member: Member) -> str:
    """The text of a file.

    Raises
    ------
    DatasetError
        If it is too long, empty, no UTF-8, or something else than plain text.
    """
    name = member.name
    if member.kind:
        raise raw.fault(f"{name} is {member.kind}, and a folder of texts holds plain files")
    if member.size > LINE_BYTES:
        raise raw.fault(f"{name} has {member.size:,} bytes, more than {LINE_BYTES:,}", "divide it")
    content = member.read()
    if (kind := streams.kind_of(content)) != streams.TEXT:
        raise raw.fault(f"{name} is {kind}, and a folder of texts holds plain text")
    codec, _ = encoding_of(content)
    try:
        text = content.decode(codec, errors="surrogateescape")
    except UnicodeError as error:
        raise raw.fault(f"{name} is no text ({error})", SAVE) from error
    for number, line in enumerate(text.split("\n"), start=1):
        checked(raw, f"{name}, line {number},", line)
    if (kind := text_kind(text, is_whole=True)) != PLAIN:
        raise raw.fault(
            f"{name} is a table ({kind}), and each file of a folder is one document",
            "name the table itself, not the folder",
        )
    if not text.strip():
        raise raw.fault(f"{name} is empty", "remove it, or write a text into it")
    return text.replace("\r\n", "\n").strip("\n")
