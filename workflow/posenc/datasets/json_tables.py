"""JSON lines, and arrays of objects in JSON (RFC 8259), with the line of each fault.

The standard library reads them: PyArrow takes the last of two equal keys without a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from posenc.artifacts.files import JsonObject
from posenc.datasets.errors import DatasetError, listed, shown
from posenc.datasets.raw_file import RawFile
from posenc.datasets.rows import Row
from posenc.datasets.streams import opened
from posenc.datasets.text_files import SAVE, checked, lines_of, text_of

KINDS = LINES, ARRAY = ("JSON lines", "JSON")
LOOKED_AT = 20
"""Rows whose keys are the columns."""
_OBJECT = re.compile(r'\s*\{\s*["}]')
_ARRAY = re.compile(r'\s*\[\s*[\[{"\]]')
_SPACE = re.compile(r"[ \t\n\r]*")
EXAMPLE = '{"text": "…"}'


class _TwiceError(ValueError):
    """A key stands twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> JsonObject:
    members: JsonObject = {}
    for key, value in pairs:
        if key in members:
            raise _TwiceError(f"the key {key!r} stands twice")
        members[key] = value
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def kind_of(sample: str) -> str | None:
    """What a text is by its beginning: JSON lines, a JSON array, or None if neither."""
    if _OBJECT.match(sample):
        return LINES
    return ARRAY if _ARRAY.match(sample) else None


def columns_of(rows: Iterator[Row]) -> tuple[str, ...]:
    """Keys of the first rows."""
    keys: dict[str, None] = {}
    for _, row in zip(range(LOOKED_AT), rows, strict=False):
        keys |= dict.fromkeys(row.values)
    return tuple(keys)


def rows_of(raw: RawFile, kind: str) -> Callable[[Collection[str]], Iterator[Row]]:
    """How the rows of a file are read.

    Parameters
    ----------
    raw
        The file.
    kind
        One of :data:`LINES` and :data:`ARRAY`.
    """
    return lambda columns: _lines(raw) if kind == LINES else _array(raw)


def _lines(raw: RawFile) -> Iterator[Row]:
    is_first = True
    for number, line in lines_of(raw):
        if not line.strip():
            continue
        where = f"line {number}"
        checked(raw, where, line)
        try:
            value = _DECODER.decode(line.rstrip())
        except (ValueError, RecursionError) as error:
            if is_first:
                _refuse_one_object(raw)
            raise _not_json(raw, where, error) from error
        is_first = False
        yield Row(where, _object(raw, where, value))


def _array(raw: RawFile) -> Iterator[Row]:
    text = _whole(raw)
    begin = _skip_space(text, text.index("[") + 1)
    line, counted, number = 1, 0, 0
    is_over = text[begin : begin + 1] == "]"
    while not is_over:
        number += 1
        line, counted = line + text.count("\n", counted, begin), begin
        where = f"row {number} (line {line})"
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            raise _not_json(raw, where, error) from error
        yield Row(where, _object(raw, where, value))
        begin = _skip_space(text, end)
        is_over = text[begin : begin + 1] == "]"
        if text[begin : begin + 1] == ",":
            begin = _skip_space(text, begin + 1)
        elif not is_over:
            raise raw.fault(f"{where} is followed neither by a comma nor by the end of the array")
    if rest := text[begin + 1 :].strip():
        line = text.count("\n", 0, begin) + 1
        raise raw.fault(f"line {line} ends the array, and more follows ({shown(rest)})")


def _skip_space(text: str, begin: int) -> int:
    space = _SPACE.match(text, begin)
    return begin if space is None else space.end()


def _whole(raw: RawFile) -> str:
    """The text of a file."""
    with opened(raw) as stream, text_of(stream) as file:
        try:
            text = file.read()
        except UnicodeError as error:
            raise raw.fault(f"is no text ({error})", SAVE) from error
    for number, line in enumerate(text.split("\n"), start=1):
        checked(raw, f"line {number}", line)
    return text


def _refuse_one_object(raw: RawFile) -> None:
    try:
        value = _DECODER.decode(_whole(raw))
    except (ValueError, RecursionError):
        return
    raise raw.fault(
        f"is one JSON object with the keys {listed(value)}",
        f"write an array of rows, [{EXAMPLE}], or a row a line",
    )


def _not_json(raw: RawFile, where: str, error: Exception) -> DatasetError:
    reason = str(error) or type(error).__name__
    if isinstance(error, json.JSONDecodeError):
        where, reason = f"{where.partition(' (')[0]}", f"{error.msg}, character {error.colno}"
        where = where if where.startswith("line") else f"{where} (line {error.lineno})"
    if isinstance(error, _TwiceError):
        return raw.fault(f"{where}: {reason}: which one is meant?", "remove one of them")
    return raw.fault(f"{where} is not JSON ({reason})")


def _object(raw: RawFile, where: str, value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise raw.fault(f"{where} must be an object with a text, as in {EXAMPLE}")
    return value
