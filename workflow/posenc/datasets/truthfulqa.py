"""Parse TruthfulQA (Lin, Hilton and Evans, 2022): the published CSV, or the hub's export."""

from __future__ import annotations

import csv
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
"""Names of the CSV's columns, and what the hub calls them."""


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
        fields = {name: row[name] for name in COLUMNS.values() if name != "question"}
        yield {
            "document_id": f"{SPLIT}/{count - 1:04d}",
            "split": SPLIT,
            "text": row["question"],
            **fields,
        }
    if not count:
        raise DatasetError(f"{path} holds no question; {AGAIN}")


def _read_csv(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise DatasetError(
                    f"{path} has no column {', '.join(map(repr, missing))}; format: truthfulqa "
                    f"needs {', '.join(COLUMNS)}: name the right file in params.yaml"
                )
            check_once(path, reader.fieldnames or ())
            for number, row in enumerate(reader, start=1):
                if None in row or any(row[name] is None for name in COLUMNS):
                    raise DatasetError(
                        f"{path}: question {number} (line {reader.line_num}) has not as many "
                        f"fields as the header: the file is truncated or corrupt; {AGAIN}"
                    )
                fields = {field: row[name] for name, field in COLUMNS.items()}
                for field in ("correct_answers", "incorrect_answers"):
                    fields[field] = _split_answers(fields[field])
                yield fields
    except (csv.Error, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not a whole UTF-8 CSV ({error}); {AGAIN}") from error


def _split_answers(answers: str) -> list[str]:
    """Split ``a; b; c``, in which a final semicolon is common."""
    return [answer.strip() for answer in answers.split(";") if answer.strip()]
