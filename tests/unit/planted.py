"""Measurements whose numbers all differ, so that one in the place of another shows."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Collection, Iterator
from typing import Any

from posenc.artifacts.numbers import Number

LOOKED_UP = {"weight", "seed", "seeds", "layers", "hops", "values", "confidence", "top"}
"""Entries are looked up by these numbers, which stay."""


def distinct(
    value: Any, count: Iterator[int] | None = None, kept: Collection[str] = LOOKED_UP
) -> Any:
    """A copy in which all numbers, and the bounds of intervals, differ.

    Whole numbers stay whole. Flags stay, and what is under the ``kept`` keys.
    """
    count = itertools.count(1) if count is None else count
    if isinstance(value, dict):
        return {
            key: copy.deepcopy(part) if key in kept else distinct(part, count, kept)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [distinct(part, count, kept) for part in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return next(count) + (0 if isinstance(value, int) else 0.5)
    return value


def at(measurement: Any, path: str) -> Any:
    """The part of a measurement at a path such as ``cells[pretrained=True].accuracy``."""
    for step in re.split(r"\.(?![^\[]*\])", path):  # not within brackets
        name, _, chosen = step.partition("[")
        measurement = measurement[int(name) if name.lstrip("-").isdigit() else name]
        if not chosen:
            continue
        wanted = dict(pair.split("=") for pair in chosen.rstrip("]").split(","))
        entries = [
            entry
            for entry in measurement
            if all(str(entry[key]) == text for key, text in wanted.items())
        ]
        assert len(entries) == 1, (step, len(entries))
        measurement = entries[0]
    return measurement


def expected(value: Any, factor: int = 1) -> Number:
    """What a document prints of an estimate, of a mean of draws, or of a number alone."""
    if isinstance(value, dict):
        parts = ("mean", "least", "most") if "mean" in value else ("value", "low", "high")
        return Number(*(factor * value[key] for key in parts))
    return Number(factor * value)
