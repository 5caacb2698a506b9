"""The tables of numbers of the report page: their rows, and what a browser draws them from."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

from posenc.artifacts.numbers import Entry, Number
from posenc.config.labels import display
from posenc.report.page_numbers import shown
from posenc.report.page_rows import label_of
from posenc.report.records import Place
from posenc.report.words import JOINT

GROUPS = {
    "run": ("model", "data_set", "condition", "measurement", "file"),
    "what": ("quantity", "label", "reason"),
}
"""Columns of text that go together: what a row is of, and what it says."""
SHOWN = ("shown", "shown_low", "shown_high")
TEXTS = (*GROUPS["run"], *GROUPS["what"], *SHOWN)
"""Columns of text: empty where there is none, such as the reason of a measured number."""
VALUES = ("value", "low", "high")
"""Columns of numbers in all digits: None where there is none."""


class Row(TypedDict):
    """A row of a table: its :data:`TEXTS` and :data:`VALUES`."""

    model: str
    data_set: str
    condition: str
    measurement: str
    file: str
    quantity: str
    label: str
    reason: str
    shown: str
    shown_low: str
    shown_high: str
    value: float | None
    low: float | None
    high: float | None


def table(rows: Mapping[Place, Entry], root: str, encoders: Collection[str] = ()) -> list[Row]:
    """Rows by column: what was not run takes one row per run and reason.

    Parameters
    ----------
    rows
        Of one table, in order.
    root
        Folder that files are named from.
    encoders
        Models without a loss.
    """
    listed: list[Row] = []
    absent: dict[tuple[str, str, str, str, str], Row] = {}
    counts: Counter[tuple[str, str, str, str, str]] = Counter()
    for place, entry in rows.items():
        row: Row = {
            "model": place.model, "data_set": place.dataset, "condition": place.condition,
            "measurement": place.measurement,
            "file": "; ".join(os.path.relpath(path, root) for path in place.files),
            "quantity": place.quantity, "label": label_of(place, encoders), "reason": "",
            "shown": "", "shown_low": "", "shown_high": "",
            "value": None, "low": None, "high": None,
        }  # fmt: skip
        if isinstance(entry, Number):
            number = shown(entry)
            row |= {"value": entry.value, "low": entry.low, "high": entry.high}
            row |= {"shown": number["value"]}
            row |= {"shown_low": number["low"], "shown_high": number["high"]}
            listed.append(row)
            continue
        run = (place.model, place.dataset, place.condition, place.measurement, entry.reason)
        if run not in absent:
            absent[run] = {**row, "reason": entry.reason}
            listed.append(absent[run])
        counts[run] += 1
    for run, row in absent.items():
        if counts[run] > 1:
            row["label"] = f"{display(row['measurement'])}{JOINT}{counts[run]} quantities"
            row["quantity"] = "*"
    return listed


class Packed(TypedDict):
    """Tables in few bytes.

    Attributes
    ----------
    texts
        Each once.
    groups
        By name, the distinct cells of the columns of :data:`GROUPS`, as indices of texts.
    columns
        By name, for each row the index of its group, or of the text of a column of :data:`SHOWN`,
        or a number of :data:`VALUES` or None.
    tables
        By name, the indices of its rows. These and the column ``run``, which mostly rise by one or
        stay, are written as steps from the one before.
    """

    texts: list[str]
    groups: dict[str, list[list[int]]]
    columns: dict[str, list]
    tables: dict[str, list[int]]


def packed(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Packed:
    """Tables in few bytes: each text, group of texts and row once, however many have it.

    Parameters
    ----------
    tables
        Rows of :func:`table` by the name of their table.

    Examples
    --------
    >>> row = {**dict.fromkeys(TEXTS, ""), **dict.fromkeys(VALUES), "model": "gpt2", "value": 2.0}
    >>> data = packed({"loss": [row], "further": [row]})
    >>> data["texts"], data["groups"]["run"], data["tables"]
    (['gpt2', ''], [[0, 1, 1, 1, 1]], {'loss': [0], 'further': [0]})
    >>> data["columns"]["run"], data["columns"]["value"], data["columns"]["low"]
    ([0], [2.0], [None])
    """
    texts: dict[str, int] = {}
    groups: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in GROUPS}
    columns: dict[str, list] = {name: [] for name in (*GROUPS, *SHOWN, *VALUES)}
    known: dict[tuple, int] = {}
    indices: dict[str, list[int]] = {}

    def text(row: Mapping[str, Any], column: str) -> int:
        return texts.setdefault(row[column], len(texts))

    for name, rows in tables.items():
        indices[name] = []
        for row in rows:
            key = tuple(row[column] for column in (*TEXTS, *VALUES))
            if key not in known:
                known[key] = len(known)
                for group, members in GROUPS.items():
                    cells = tuple(text(row, column) for column in members)
                    columns[group].append(groups[group].setdefault(cells, len(groups[group])))
                for column in SHOWN:
                    columns[column].append(text(row, column))
                for column in VALUES:
                    columns[column].append(row[column])
            indices[name].append(known[key])
    return {
        "texts": list(texts),
        "groups": {name: [list(cells) for cells in distinct] for name, distinct in groups.items()},
        "columns": {**columns, "run": steps(columns["run"])},
        "tables": {name: steps(rows) for name, rows in indices.items()},
    }


def steps(numbers: Sequence[int]) -> list[int]:
    """The first number, and how far each further one is from the one before.

    Examples
    --------
    >>> steps([4, 4, 5, 2])
    [4, 0, 1, -3]
    """
    return [number - before for number, before in zip(numbers, [0, *numbers], strict=False)]


def embedded_json(value: Any) -> str:
    """A value as JSON that can stand in HTML: nothing in it ends its element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
