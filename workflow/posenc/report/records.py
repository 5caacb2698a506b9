"""A number that a document may print, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A number, with its interval where it is an estimate.

    A choice, which is no measurement, has as many ``decimals`` as it was given with.
    """

    value: float
    low: float | None = None
    high: float | None = None
    decimals: int | None = None


@dataclass(frozen=True)
class NotRun:
    """There is no number, and why."""

    reason: str


Entry = Number | NotRun
