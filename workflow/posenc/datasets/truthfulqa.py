"""Parse TruthfulQA (Lin, Hilton and Evans, 2022): the published CSV, or another table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from posenc.datasets import csv_tables
from posenc.datasets.errors import DatasetError, listed, shown
from posenc.datasets.fields import Document
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import Row, Table, check_split, split_of, text_of
from posenc.datasets.tables import table_of

SPLIT = "validation"
Field: TypeAlias = Literal[
    "type", "category", "question", "best_answer", "correct_answers", "incorrect_answers", "source"
]
COLUMNS: dict[str, Field] = {
    "Type": "type",
    "Category": "category",
    "Question": "question",
    "Best Answer": "best_answer",
    "Correct Answers": "correct_answers",
    "Incorrect Answers": "incorrect_answers",
    "Source": "source",
}
"""Names of the CSV's columns, and what the hub calls them. All but the question may be absent."""


LISTS = ("correct_answers", "incorrect_answers")
"""Fields that hold several texts; semicolons separate them in a CSV."""


def parse(file: RawFile | Path) -> Iterator[Document]:
    """Yield the questions of a table in its order.

    Parameters
    ----------
    file
        A table with the published columns (CSV), or with those of the hub's configuration
        ``generation``; all but the question may be absent.

    Raises
    ------
    DatasetError
        If the file is damaged or not of this format.
    """
    raw = RawFile.of(file)
    table = table_of(raw, (SPLIT,), is_table=True)
    columns = columns_of(raw, table)
    count = 0
    for count, row in enumerate(table.read(tuple(columns)), start=1):
        question = next(column for column, field in columns.items() if field == "question")
        document: Document = {
            "document_id": f"{SPLIT}/{count - 1:04d}",
            "split": split_of(raw, row, (SPLIT,), SPLIT, {}),
            "text": text_of(raw, row, question),
        }
        for column, field in columns.items():
            if field != "question" and column in row.values:
                document[field] = _field(raw, row, column, field)
        yield document
    if not count:
        raise raw.fault("holds no question", "write one per row")


def columns_of(raw: RawFile, table: Table) -> dict[str, Field]:
    """Columns of a table that are read, with what they hold.

    Raises
    ------
    DatasetError
        If none holds questions, or one has a known name in another spelling.
    """
    check_split(raw, table)
    names = COLUMNS
    if table.kind in csv_tables.KINDS:
        _check_names(raw, table.columns)
    elif "Question" not in table.columns:
        names = {field: field for field in COLUMNS.values()}
    columns = {name: field for name, field in names.items() if name in table.columns}
    if "question" not in columns.values():
        question = next(name for name, field in names.items() if field == "question")
        raise DatasetError(
            f"{raw} has no column {question!r} (it has {listed(table.columns)}), which format: "
            f"truthfulqa needs: name the right file in params.yaml"
        )
    return columns


def _check_names(raw: RawFile, header: tuple[str, ...]) -> None:
    """Refuse a known name in another spelling."""
    spelled = {name.replace(" ", "").casefold(): name for name in COLUMNS}
    for name in header:
        meant = spelled.get(re.sub(r"[\s_-]", "", name).casefold())
        if meant not in (None, name) and meant not in header:
            raise DatasetError(
                f"{raw} has a column {name!r}, which is read as {meant!r}: rename it"
            )


def _field(raw: RawFile, row: Row, column: str, field: str) -> Any:
    """What a row has beside its question."""
    value = row.values[column]
    if field in LISTS and isinstance(value, str):
        return [answer.strip() for answer in value.split(";") if answer.strip()]
    parts = value if field in LISTS and isinstance(value, list) else [value]
    for part in parts:
        if part is not None and not isinstance(part, str):
            raise raw.fault(f"{row.where}, column {column!r} holds {shown(part)}, which is no text")
    return value
