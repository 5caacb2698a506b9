"""Which fields of a result documents print, under which keys and in which words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, TypeVar

from posenc.artifacts.numbers import (
    FLOAT32,
    NOT_EVALUATED,
    Entry,
    Facts,
    NotRun,
    Number,
    Quantities,
)
from posenc.artifacts.results import Interval, Result, Spread

R = TypeVar("R", bound=Result)
Fields = Mapping[str, "Printed | By"]
"""What is printed, by field."""


@dataclass(frozen=True)
class Printed:
    """A field that is printed, or whose parts are.

    Attributes
    ----------
    words
        What a reader calls it; the words that all measurements share where it is left out.
    absent
        Why there is no number where the field is None, unless its part gives a ``reason``.
    rounding
        Below this, the number is zero up to rounding.
    percent
        Whether a share is printed in percent.
    name
        Its part of the key, where that is not the field's own name.
    """

    words: str = ""
    absent: str = "it is not defined"
    rounding: float = FLOAT32
    percent: bool = False
    name: str | None = None


@dataclass(frozen=True)
class By:
    """A list of parts, or a mapping, whose entries stand in keys by what names them.

    Attributes
    ----------
    which
        The field of a part that names it; None for a mapping, whose keys do.
    spoken
        Names that documents speak of, whether a result has them or not.
    absent
        Why a name that the result lacks has no number, unless its part gives a ``reason``.
    words
        What a reader calls the names, where they say too little.
    name
        What comes before the name: ``window_{}`` gives ``window_5``.
    """

    which: str | None = None
    spoken: Sequence[str | int] = ()
    absent: str = NOT_EVALUATED
    words: Mapping[str, str] = field(default_factory=dict)
    name: str = "{}"

    def key(self, name: str | int) -> str:
        """The part of the key for a name: a key has no spaces."""
        return self.name.format(name).replace(" ", "_")

    def entries(self, value: Any) -> dict[str | int, Any]:
        """The entries of a list of parts or a mapping, by name."""
        if self.which is None:
            return dict(value or {})
        return {getattr(part, self.which): part for part in value or ()}


@dataclass(frozen=True)
class _Node:
    """A field on the way to printed numbers, and those of its fields that are on it too."""

    mark: Printed | By = Printed()
    below: dict[str, _Node] = field(default_factory=dict)

    def names(self, name: str) -> Iterator[str]:
        """Keys of the field and of what is below it, whether it was measured or not."""
        if isinstance(self.mark, By):
            for spoken in self.mark.spoken:
                yield from self._under(self.mark.key(spoken))
        else:
            yield from self._under(self.mark.name or name)

    def facts(self, name: str, value: Any, reason: str | None) -> Iterator[tuple[str, Entry]]:
        """Numbers of the field and of what is below it, by key."""
        if not isinstance(self.mark, By):
            yield from self._entry(self.mark.name or name, value, self.mark, reason)
            return
        entries = self.mark.entries(value)
        for which in dict.fromkeys([*self.mark.spoken, *entries]):
            key = self.mark.key(which)
            if which in entries:
                yield from self._entry(key, entries[which], Printed(), reason)
            else:
                yield from dict.fromkeys(
                    self._under(key), NotRun(reason or self.mark.absent)
                ).items()

    def _under(self, key: str) -> Iterator[str]:
        if not self.below:
            yield key
        for name, node in self.below.items():
            yield from (f"{key}.{below}" for below in node.names(name))

    def _entry(
        self, key: str, value: Any, mark: Printed, reason: str | None
    ) -> Iterator[tuple[str, Entry]]:
        if value is None:
            yield from dict.fromkeys(self._under(key), NotRun(reason or mark.absent)).items()
        elif self.below:
            yield from ((f"{key}.{below}", entry) for below, entry in self.of(value).items())
        else:
            yield key, number(value, mark)

    def of(self, part: Any) -> Facts:
        """Numbers of the fields of a part, by key."""
        reason = getattr(part, "reason", None)
        return {
            key: entry
            for name, node in self.below.items()
            for key, entry in node.facts(name, getattr(part, name), reason)
        }


def number(value: Interval | Spread | float | None, how: Printed = Printed()) -> Entry:
    """The number of a field, or why there is none."""
    if value is None:
        return NotRun(how.absent)
    factor = 100 if how.percent else 1
    if not isinstance(value, Interval | Spread):
        return Number(factor * value, rounding=how.rounding)
    middle, low, high = (factor * end for end in value.numbers)
    return Number(middle, low, high, rounding=how.rounding)


def quantities(
    package: str,
    kind: str,
    printed: Fields,
    derived: Callable[[R], Facts] | None = None,
    names: Sequence[str] = (),
    words: Mapping[str, str] | None = None,
) -> Quantities:
    """What documents print of the files of a measurement.

    Parameters
    ----------
    package, kind
        Its package, and the name of the type of its results in the module ``result`` there, which
        is imported when a file is read: front ends import this whenever they start.
    printed
        By field, ``layers.cosine``: a number that is printed. The names on the way to it, joined
        by dots, are its key; where a field is :class:`By` something, the name of each entry stands
        for the field's own.
    derived
        Numbers that are computed of a result, and those that it says better than its fields do.
    names, words
        Names of derived numbers, and words for parts of their keys.

    Raises
    ------
    ValueError
        If one part of keys is called by different words: a key would not tell which.
    """
    root, said = _Node(), dict[str, str]()
    for path, mark in printed.items():
        *before, last = path.split(".")
        node = root
        for name in before:
            node = node.below.setdefault(name, _Node())
        own = mark.words if isinstance(mark, By) else {mark.name or last: mark.words}
        node.below[last] = _Node(mark, node.below[last].below if last in node.below else {})
        for part, called in own.items():
            if called and said.setdefault(part, called) != called:
                raise ValueError(f"{package}: {part!r} is {said[part]!r} and {called!r}")

    def read(measured: Mapping[str, Any]) -> Facts:
        result = resolve_name(f"{package}.result:{kind}").of(measured)
        return root.of(result) | (derived(result) if derived else {})

    fields = [key for name, node in root.below.items() for key in node.names(name)]
    return Quantities(
        read=read, names=tuple(dict.fromkeys([*fields, *names])), words={**said, **(words or {})}
    )
