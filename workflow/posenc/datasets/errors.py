"""The error of this room, and what several readers of raw files refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

SHOWN = 60
"""Characters of a value that a message shows."""


class DatasetError(RuntimeError):
    """A data set cannot be had or is not what it should be; the message says the way out."""

    is_user_error = True


def shown(value: Any) -> str:
    """A value as a message shows it: its beginning where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def listed(names: Iterable[Any]) -> str:
    """Names as a message lists them: the first ones where there are many."""
    quoted = [shown(name) for name in names]
    more = f" and {len(quoted) - 30} more" if len(quoted) > 30 else ""
    return (", ".join(quoted[:30]) or "none") + more


def check_once(file: object, columns: Iterable[str]) -> None:
    """Refuse a file that has a column more than once.

    Raises
    ------
    DatasetError
        If it has one.
    """
    twice = [name for name, count in Counter(columns).items() if name and count > 1]
    if twice:
        raise DatasetError(
            f"{file} has the column {', '.join(map(repr, twice))} more than once: which one is "
            f"meant? Remove or rename the others"
        )
