"""The error of this room, and what several readers of raw files say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

AGAIN = "delete it and run again, which fetches it"
"""The way out where a raw file is damaged."""


class DatasetError(RuntimeError):
    """A data set cannot be had or is not what it should be; the message says the way out."""

    is_user_error = True


def check_once(path: Path, columns: Iterable[str]) -> None:
    """Refuse a file that has a column more than once.

    Raises
    ------
    DatasetError
        If it has one.
    """
    twice = [name for name, count in Counter(columns).items() if name and count > 1]
    if twice:
        raise DatasetError(
            f"{path} has the column {', '.join(map(repr, twice))} more than once: which one is "
            f"meant? Remove or rename the others"
        )
