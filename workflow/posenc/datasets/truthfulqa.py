"""Parse TruthfulQA (Lin, Hilton and Evans, 2022): the published CSV, or the hub's export."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc.datasets.errors import AGAIN, DatasetError, check_once
from posenc.datasets.parquet import read_hub_rows

SPLIT = "validation"
COLUMNS = {
    "Type": "type",
    "Category": "category",
    "Question": "question",
    "Best Answer": "best_answer",
    "Correct Answers": "correct_answers",
    "Incorrect Answers": "incorrect_answers",
    "Source": "source",
}
"""Names of the CSV's columns, and what the hub calls them. All but the question may be absent."""


def parse(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the questions of a CSV or of a hub export in the file's order.

    Parameters
    ----------
    path
        ``.csv`` as published, or a ``.parquet`` with the columns of the hub's configuration
        ``generation``.

    Raises
    ------
    DatasetError
        If the file is damaged or not of this format.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        rows = read_hub_rows(path, tuple(COLUMNS.values()), (SPLIT,), {})
    else:
        rows = _read_csv(path)
    count = 0
    for count, row in enumerate(rows, start=1):
        if not row["question"] or not row["question"].strip():
            raise DatasetError(f"{path}: question {count} is empty; {AGAIN}")
        others = (name for name in COLUMNS.values() if name != "question" and name in row)
        yield {
            "document_id": f"{SPLIT}/{count - 1:04d}",
            "split": SPLIT,
            "text": row["question"],
            **{name: row[name] for name in others},
        }
    if not count:
        raise DatasetError(f"{path} holds no question; {AGAIN}")


def _read_csv(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = list(reader.fieldnames or ())
            columns = {name: field for name, field in COLUMNS.items() if name in header}
            _check_names(path, header)
            check_once(path, header)
            for number, row in enumerate(reader, start=1):
                if None in row or None in row.values():
                    raise DatasetError(
                        f"{path}: question {number} (line {reader.line_num}) has not as many "
                        f"fields as the header: the file is truncated or corrupt; {AGAIN}"
                    )
                fields: dict[str, Any] = {field: row[name] for name, field in columns.items()}
                for field in {"correct_answers", "incorrect_answers"} & set(fields):
                    fields[field] = _split_answers(fields[field])
                yield fields
    except (csv.Error, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not a whole UTF-8 CSV ({error}); {AGAIN}") from error


def _check_names(path: Path, header: list[str]) -> None:
    """Refuse a header without questions, and one that has a known name in another spelling."""
    spelled = {name.replace(" ", "").casefold(): name for name in COLUMNS}
    for name in header:
        meant = spelled.get(re.sub(r"[\s_-]", "", name or "").casefold())
        if meant not in (None, name) and meant not in header:
            raise DatasetError(
                f"{path} has a column {name!r}, which is read as {meant!r}: rename it"
            )
    if "Question" not in header:
        raise DatasetError(
            f"{path} has no column 'Question', which format: truthfulqa needs: name the right file "
            f"in params.yaml"
        )


def _split_answers(answers: str) -> list[str]:
    """Split ``a; b; c``, in which a final semicolon is common."""
    return [answer.strip() for answer in answers.split(";") if answer.strip()]
