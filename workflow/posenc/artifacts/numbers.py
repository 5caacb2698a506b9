"""A number of a result that a document may print, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T", bound=Hashable)
FLOAT32, FLOAT64 = 2.0**-20, 2.0**-43
"""What rounding alone may leave of a number that is 0, or change of one that is 1.

A sum of n products is wrong by at most n u times the sum of their moduli, with u the unit roundoff:
Higham (2002), *Accuracy and Stability of Numerical Algorithms*, equation 3.5. What is computed in
float64 throughout (u = 2^-53) are products and decompositions of matrices as wide as a model, here
up to n = 2^10. What a model's pass in float32 leaves (u = 2^-24) is a mean over tokens, in which
errors of either sign cancel and grow like the root of n: Higham and Mary (2019),
https://doi.org/10.1137/18M1226312; of it, 2^4 u is allowed. Shares, cosines and losses in nats are
sums of terms of size 1.
"""
NOT_EVALUATED = "the study does not evaluate it"
ENDS = {"smallest": min, "largest": max}
"""What documents call the ends of what a study varies, so that a text fits every list of values."""


@dataclass(frozen=True)
class Number:
    """A number, with its interval where it is an estimate.

    A choice, which is no measurement, has as many ``decimals`` as it was given with. Below
    ``rounding``, it is zero up to rounding.
    """

    value: float
    low: float | None = None
    high: float | None = None
    decimals: int | None = None
    rounding: float = field(default=FLOAT32, compare=False)


@dataclass(frozen=True)
class NotRun:
    """Why there is no number."""

    reason: str


Entry = Number | NotRun
Facts = dict[str, Entry]
"""By quantity."""
Reader = Callable[[Mapping[str, Any]], Facts]
"""How a measured file, or a run in it, is read."""


@dataclass(frozen=True)
class Quantities:
    """What documents print of the files of a measurement or an experiment.

    Attributes
    ----------
    read
        Turns the content of a measured file, or of a run in it, into numbers by quantity. None
        where :mod:`posenc.report.collection` has a way of its own.
    names
        The quantities that it has where it was not run.
    words
        What a reader calls the parts of quantities. A part that ends in ``_`` stands for all that
        go on with a number.
    also
        The same by the name of other numbers that are read from its files.
    """

    read: Reader | None = None
    names: Sequence[str] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def facts_of(measurement: Mapping[str, Any], read: Reader, names: Iterable[str]) -> Facts:
    """The numbers of a measurement; ``NotRun`` where it was not run."""
    if measurement["status"] != "measured":
        return dict.fromkeys(names, NotRun(measurement["reason"]))
    return read(measurement)


def with_spoken(spoken: Iterable[T], measured: Iterable[T]) -> list[T]:
    """What documents speak of, and what else a result has: numbers follow the parameters."""
    return list(dict.fromkeys([*spoken, *measured]))
