"""Comma- and tab-separated values (RFC 4180), with the line and column of each fault.

The standard library reads them: PyArrow does not say in which line a fault is once a field holds a
newline, and takes a quotation mark that is not closed for the end of the file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator

from posenc.datasets.errors import check_once
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import EMPTY_ROWS, Row
from posenc.datasets.text_files import LINE_BYTES, checked, lines_of

CSV = "CSV"
KINDS = {
    CSV: ",",
    "tab-separated values": "\t",
    "CSV with semicolons": ";",
    "values separated by bars": "|",
}
"""What separates the fields of each kind of table."""
ALONE = ("text", "review", "question")
"""A first line that is such a word is the header of a table with one column."""
NAMES = (*ALONE, "sentiment", "label", "split")
"""A first line with such a field is the header of a table."""
NAME_CHARACTERS = 64
"""What the name of a column has at most."""
ENDS = tuple(".!?:…。！？")
"""No name of a column ends so, and sentences do."""


def kind_of(sample: str, is_whole: bool, named: Collection[str]) -> str | None:
    """Which kind of table a text is; None if it is none.

    A text is a table if its first line has the name of a column that is known or that the user
    names, or if all lines have the same number of fields, two or more, below a line of names.

    Parameters
    ----------
    sample
        The beginning of the text.
    is_whole
        Whether it is all of it.
    named
        Columns that the user names.
    """
    known = {*NAMES, *(name.casefold() for name in named)}
    alone = {*ALONE, *(name.casefold() for name in named)}
    likely, lone = [], None
    for kind, delimiter in KINDS.items():
        records, is_sound, goes_on = _records(sample, delimiter, is_whole)
        if not records:
            continue
        header = [name.strip().casefold() for name in records[0]]
        lengths = {len(record) for record in records}
        if len(header) > 1 and known.intersection(header):
            return kind
        if alone.intersection(header):
            # Of a single column, what separates no field of it.
            lone = lone or CSV
            if is_sound and lengths == {1}:
                return kind
        is_even = len(lengths) == 1 < len(header) and len(records) + goes_on > 1
        if is_sound and is_even and _names(records[0]):
            likely.append((len(header), kind))
    return max(likely)[1] if likely and not lone else lone


def _records(sample: str, delimiter: str, is_whole: bool) -> tuple[list[list[str]], bool, bool]:
    """Records that end within a sample; are they sound, and does one more go on behind it?"""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
    records: list[list[str]] = []
    is_sound, goes_on = True, False
    try:
        records += (record for record in reader)
    except csv.Error:
        # A quoted field may go on behind the end of the sample; its record is not among them.
        is_sound = goes_on = not is_whole and reader.line_num >= sample.count("\n")
    else:
        if records and not is_whole:
            goes_on = len(records.pop()) == len(next(filter(None, records), []))
    return [record for record in records if record], is_sound, goes_on


def _names(header: list[str]) -> bool:
    """Whether a line is one of names."""
    named = [name for name in header if name]
    return (
        len(set(named)) == len(named) > 0
        and bool(header[0] or len(named) > 1)
        and all(
            len(name) <= NAME_CHARACTERS and name == name.strip() and not name.endswith(ENDS)
            for name in named
        )
    )


def columns_of(raw: RawFile, delimiter: str) -> tuple[str, ...]:
    """The names in the first line of a table, without columns that have none.

    Raises
    ------
    DatasetError
        If a name is there twice, or the line cannot be read.
    """
    _, header = next(_read(raw, delimiter), (1, []))
    for name in header:
        checked(raw, "line 1", name)
    check_once(raw, header)
    return tuple(name for name in header if name)


def rows_of(raw: RawFile, delimiter: str) -> Callable[[Collection[str]], Iterator[Row]]:
    """How the rows of a table are read; rows without any value are counted and left out.

    Parameters
    ----------
    raw
        The file.
    delimiter
        What separates its fields.
    """

    def read(columns: Collection[str]) -> Iterator[Row]:
        records = _read(raw, delimiter)
        _, header = next(records, (1, []))
        for line, record in records:
            where = f"line {line}"
            if not any(value.strip() for value in record):
                raw.skipped[EMPTY_ROWS] += 1
                continue
            if len(record) != len(header):
                raise raw.fault(
                    f"{where} has {_fields(record)}, and the first line names {len(header)}",
                    "put quotation marks around a text that has the separator in it, or mend the "
                    "line",
                )
            values = {name: value for name, value in zip(header, record, strict=True) if name}
            for name, value in values.items():
                checked(raw, f"{where}, column {name!r}", value)
            yield Row(where, values)

    return read


def _fields(record: list[str]) -> str:
    return "1 field" if len(record) == 1 else f"{len(record)} fields"


def _read(raw: RawFile, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records that are not empty, with the lines in which they begin."""
    csv.field_size_limit(LINE_BYTES)
    reader = csv.reader(
        (line for _, line in lines_of(raw, newline="")), delimiter=delimiter, strict=True
    )
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise raw.fault(
                f"line {line} begins a row that cannot be read ({error})",
                "close each quotation mark, and double those within quotation marks",
            ) from error
        if record:
            yield line, record
