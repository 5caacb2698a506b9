"""Parse documents of any text, one per line: plain, as JSON, or the hub's export."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc.datasets import section
from posenc.datasets.errors import DatasetError
from posenc.datasets.parquet import read_hub_rows

SPLITS = section.SPLITS["text"]
DEFAULT = "test"
"""The split of a document that names none."""
LINE_BYTES = 10_000_000
"""What a document may have; a longer line is another format."""


def parse(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file in its order.

    Parameters
    ----------
    path
        ``.jsonl``, with an object per line that has ``text`` and may have ``split``; a ``.parquet``
        with a column ``text``, as fetched from the hub; otherwise UTF-8 text, of which every line
        that is not blank is a document of the split ``test``.

    Raises
    ------
    DatasetError
        If the file is damaged, has no document, or a line is too long or not what it should be.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        rows: Iterator[dict[str, Any]] = read_hub_rows(path, ("text",), SPLITS, {})
    else:
        rows = _read_lines(path)
    counts: Counter[str] = Counter()
    for row in rows:
        if not isinstance(row["text"], str) or not row["text"].strip():
            raise DatasetError(
                f"{path}: document {sum(counts.values()) + 1} has no text; correct the file"
            )
        split = row["split"]
        yield {
            "document_id": f"{split}/{counts[split]:07d}",
            "split": split,
            "text": row["text"],
        }
        counts[split] += 1
    if not counts:
        raise DatasetError(f"{path} holds no document: write one per line")


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            number = 0
            while line := file.readline(LINE_BYTES + 1):
                number += 1
                if len(line) > LINE_BYTES:
                    raise DatasetError(
                        f"{path}:{number}: the line is longer than {LINE_BYTES:,} characters; "
                        f"format: text has a document per line"
                    )
                if line.strip():
                    is_json = path.suffix == ".jsonl"
                    yield _of_json(line, path, number) if is_json else _of_text(line)
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 ({error}); save it as UTF-8") from error


def _of_text(line: str) -> dict[str, Any]:
    return {"text": line.rstrip("\n"), "split": DEFAULT}


def _of_json(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}:{number} is not JSON ({error}); correct the line") from error
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise DatasetError(f'{path}:{number} must be an object with a text, {{"text": "…"}}')
    split = row.get("split", DEFAULT)
    if split not in SPLITS:
        raise DatasetError(
            f"{path}:{number} has the split {split!r}; the format has {', '.join(SPLITS)}"
        )
    try:
        row["text"].encode()
    except UnicodeEncodeError as error:
        raise DatasetError(f"{path}:{number} has half a character ({error})") from error
    return {"text": row["text"], "split": split}
