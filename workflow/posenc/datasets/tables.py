"""Rows of whatever people have: a table in CSV, JSON or Parquet, or lines of plain text.

What a file is follows from its contents, and not from its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from posenc.datasets import csv_tables, json_tables, parquet
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import PLAIN, TEXT, Row, Table
from posenc.datasets.streams import HEAD_BYTES, PARQUET, opened
from posenc.datasets.streams import TEXT as TEXT_FILE
from posenc.datasets.text_files import check_head, checked, encoding_of, lines_of


def table_of(
    raw: RawFile,
    splits: Collection[str] = (),
    aliases: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    *,
    is_table: bool = False,
) -> Table:
    """A file as a table: Parquet, JSON lines, JSON, CSV, tab-separated values, or plain text.

    Parameters
    ----------
    raw
        The file, compressed or not.
    splits, aliases
        See :func:`posenc.datasets.parquet.table_of`.
    named
        Columns that the user names: a text file with one of them is a table.
    is_table
        Whether it cannot be plain text.

    Raises
    ------
    DatasetError
        If it is damaged, or no such file.
    """
    with opened(raw) as stream:
        kind = stream.kind
        head = stream.file.read(HEAD_BYTES) if kind == TEXT_FILE else b""
        is_whole = len(head) < HEAD_BYTES
    if kind == PARQUET:
        return parquet.table_of(raw, splits, aliases or {})
    if kind != TEXT_FILE:
        raise raw.fault(
            f"is an archive ({kind}), where a table or plain text is read",
            "unpack it and name the file that is in it",
        )
    check_head(raw, head)
    codec, encoding = encoding_of(head)
    sample = head.decode(codec, errors="ignore")
    kind = text_kind(sample, is_whole, named)
    check_start(raw, kind, sample, is_whole, named)
    if kind in json_tables.KINDS:
        read = json_tables.rows_of(raw, kind)
        return Table(kind, encoding, json_tables.columns_of(read(())), (), read)
    if kind == PLAIN and not is_table:
        return Table(PLAIN, encoding, (TEXT,), (), lambda columns: _plain(raw))
    kind = csv_tables.CSV if kind == PLAIN else kind
    delimiter = csv_tables.KINDS[kind]
    columns = csv_tables.columns_of(raw, delimiter)
    return Table(kind, encoding, columns, (), csv_tables.rows_of(raw, delimiter), True)


def text_kind(sample: str, is_whole: bool, named: Collection[str] = ()) -> str:
    """What a text is: JSON lines, JSON, a kind of CSV, or plain text.

    Parameters
    ----------
    sample, is_whole
        Its beginning, and whether that is all of it.
    named
        Columns that the user names.
    """
    return json_tables.kind_of(sample) or csv_tables.kind_of(sample, is_whole, named) or PLAIN


def check_start(
    raw: RawFile, kind: str, sample: str, is_whole: bool, named: Collection[str], where: str = ""
) -> None:
    """Refuse a table below a line that is no part of it: a comment, or Excel's ``sep=;``.

    Parameters
    ----------
    raw
        The file, or the folder that it is in.
    kind
        What the text is as a whole.
    sample, is_whole, named
        As :func:`text_kind`.
    where
        The name of a file in a folder, for messages.

    Raises
    ------
    DatasetError
        If it begins so.
    """
    place = f"{where}, line" if where else "line"
    if re.match(r"\ufeff?sep=.?\r?\n", sample):
        raise raw.fault(f"{place} 1 is a line for Excel alone (`sep=`)", "remove it")
    comments = re.match(r"\ufeff?(#.*\n)+", sample)
    if kind != PLAIN or comments is None:
        return
    below = text_kind(sample[comments.end() :], is_whole, named)
    if below != PLAIN:
        raise raw.fault(
            f"{place} {comments[0].count(chr(10)) + 1} begins a table ({below}), below a comment",
            "remove the comment",
        )


def _plain(raw: RawFile) -> Iterator[Row]:
    """A row for each line that is not blank."""
    for number, line in lines_of(raw):
        if line.strip():
            where = f"line {number}"
            yield Row(where, {TEXT: checked(raw, where, line.rstrip("\n"))})
