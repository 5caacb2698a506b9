"""Text, numbers and columns of numbers as LaTeX prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from posenc.artifacts.numbers import Entry, Number
from posenc.config import labels
from posenc.report import characters
from posenc.report.quantities import decimals_of, written

ABSENT = "{--}"
"""A cell without a number; the braces keep siunitx from reading it."""


class Grid(TypedDict):
    """A table of rows of cells, with the ``table-format`` of each column of numbers."""

    rows: list[list[str]]
    formats: list[str]


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return characters.latex(str(text))


def display(name: str) -> str:
    """A name of params.yaml as LaTeX prints what is shown of it."""
    return escape(labels.display(name))


def number_of(entry: Entry | str | None) -> Number | None:
    """An entry that is a number; None for one that is not."""
    return entry if isinstance(entry, Number) else None


def number(entry: Number, decimals: int | None = None) -> str:
    """A number as LaTeX prints it."""
    return rf"\num{{{written(entry.value, decimals_of(entry) if decimals is None else decimals)}}}"


def interval(entry: Number, decimals: int | None = None) -> str:
    """The interval of an estimate as LaTeX prints it."""
    decimals = decimals_of(entry) if decimals is None else decimals
    if entry.low is None or entry.high is None:
        raise ValueError("a number without an interval")
    low, high = (rf"\num{{{written(end, decimals)}}}" for end in (entry.low, entry.high))
    return f"[{low},~{high}]"


def shared_decimals(entries: Iterable[Number | None], most: int) -> int:
    """The decimals that a set of numbers needs, for all alike; at most so many."""
    places = [decimals_of(entry) for entry in entries if entry is not None]
    return max(0, min(most, max(places, default=0)))


def column(entries: Sequence[Number | None], decimals: int | None = None) -> tuple[list[str], str]:
    """Lay out a column of numbers.

    Parameters
    ----------
    entries : sequence of Number or None
        None leaves a cell without a number.
    decimals : int or None
        Of every number; None lets each have its own.

    Returns
    -------
    cells : list of str
        For an S column of siunitx.
    form : str
        The column's ``table-format``.
    """
    cells, whole, fraction, sign = [], 1, 0, ""
    for entry in entries:
        text = ABSENT
        if entry is not None:
            text = written(entry.value, decimals_of(entry) if decimals is None else decimals)
            if "e" in text:
                text = rf"{{\num{{{text}}}}}"
            else:
                sign = "-" if text.startswith("-") else sign
                before, _, after = text.removeprefix("-").partition(".")
                whole, fraction = max(whole, len(before)), max(fraction, len(after))
        cells.append(text)
    return cells, f"{sign}{whole}.{fraction}"


def intervals(entries: Sequence[Number | None], decimals: int | None = None) -> list[str]:
    """Lay out a column of the same numbers' intervals."""
    return [
        "--" if entry is None or entry.low is None else interval(entry, decimals)
        for entry in entries
    ]
