"""A table that is read row by row, and what a row may hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from posenc.datasets.errors import DatasetError, listed, shown
from posenc.datasets.raw_file import RawFile
from posenc.datasets.text_files import checked


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes
    ----------
    where
        Its line or its number, in words.
    values
        By column.
    """

    where: str
    values: Mapping[str, object]


@dataclass(frozen=True)
class Table:
    """A file as a table.

    Attributes
    ----------
    kind
        Its format, in words.
    encoding
        Of its text, in words; empty if it has none of its own.
    columns
        Names of all columns, as far as they are known before it is read as a whole.
    texts
        Those that can only hold text, where the file says so.
    read
        Yields the rows, with the columns that are asked for and perhaps others.
    has_names
        Whether its first line must name the columns.
    """

    kind: str
    encoding: str
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    read: Callable[[Collection[str]], Iterator[Row]]
    has_names: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is plain text, with a row a line."""
        return self.kind == PLAIN


PLAIN = "plain text"
EMPTY_ROWS = "rows without a value"
"""What is counted of a table and left out."""
TEXT, SPLIT = "text", "split"
"""Columns: of documents, unless another one is named, and of the splits that they are in."""


def text_column(raw: RawFile, table: Table, column: str | None, known: Collection[str]) -> str:
    """The column that holds the documents.

    Parameters
    ----------
    raw
        The file.
    table
        The same as a table.
    column
        The one that the user names, if any.
    known
        Names that it may have if the user names none.

    Raises
    ------
    DatasetError
        If there is no such column, or none is named and it is not clear which one it is.
    """
    if column is not None and table.is_plain:
        raise DatasetError(
            f"{raw} is plain text with a document per line, and column: names {column!r}: leave "
            f"out column:, or name a table"
        )
    check_split(raw, table, column)
    candidates = [column] if column is not None else known
    present = [name for name in candidates if name in table.columns]
    if column is None and not present and len(table.texts) == 1:
        return table.texts[0]
    if not present:
        wanted = " or ".join(map(repr, candidates))
        row = "if that is a row, write the names of the columns above it; if not, "
        raise DatasetError(
            f"{raw} has no column {wanted} (it has {listed(table.columns)}): "
            f"{row if table.has_names else ''}name the one with the text as column: in "
            f"params.yaml, or as --column of `posenc new`"
        )
    return present[0]


def check_split(raw: RawFile, table: Table, column: str | None = None) -> None:
    """Refuse a column of splits in another spelling, whose rows would all be of one split.

    Parameters
    ----------
    raw, table
        The file.
    column
        The one that the user names as that of the texts, if any.

    Raises
    ------
    DatasetError
        If there is one.
    """
    for name in table.columns:
        if name.strip().casefold() == SPLIT not in table.columns and name != column:
            raise DatasetError(
                f"{raw} has a column {name!r}, which is read as {SPLIT!r}: rename it"
            )


def text_of(raw: RawFile, row: Row, column: str) -> str:
    """The text in a column of a row.

    Raises
    ------
    DatasetError
        If there is none, or it is no text, or holds what no document can hold.
    """
    where = f"{row.where}, column {column!r}"
    if column not in row.values:
        raise raw.fault(f"{row.where} has no {column!r} (it has {listed(row.values)})")
    value = row.values[column]
    if value is None or (isinstance(value, str) and not value.strip()):
        raise raw.fault(f"{where} is empty", "give it a text, or remove the row")
    if not isinstance(value, str):
        raise raw.fault(f"{where} holds {shown(value)}, which is no text")
    checked(raw, where, value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise raw.fault(f"{where} holds half a character ({error.reason})") from None
    return value


def split_of(
    raw: RawFile, row: Row, splits: Collection[str], default: str, aliases: Mapping[str, str]
) -> str:
    """The split that a row names, or the one of rows that name none.

    Parameters
    ----------
    raw, row
        The file and the row.
    splits
        Those of the format.
    default
        Of a row that names none.
    aliases
        The format's names for splits that others call otherwise.

    Raises
    ------
    DatasetError
        If it names another one.
    """
    named = row.values.get(SPLIT)
    if named is None or named == "":
        return default
    split = aliases.get(named, named) if isinstance(named, str) else None
    if split is None or split not in splits:
        raise unknown_split(raw, row.where, named, splits)
    return split


def unknown_split(raw: RawFile, where: str, named: object, splits: Collection[str]) -> DatasetError:
    """The error of a row that names a split which the format does not have."""
    return raw.fault(
        f"{where} has the split {shown(named)}, and the format has {', '.join(splits)}"
    )
