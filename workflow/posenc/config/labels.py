"""What readers see in the place of a name of ``params.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_LABELS: ContextVar[Mapping[str, str]] = ContextVar("labels", default=MappingProxyType({}))


@contextmanager
def labelled(labels: Mapping[str, str]) -> Iterator[None]:
    """Within it, :func:`display` knows these labels: a figure, the page or a table is made."""
    before = _LABELS.set(labels)
    try:
        yield
    finally:
        _LABELS.reset(before)


def display(name: str) -> str:
    """A name of params.yaml as it is shown: its label, or the name with spaces.

    Examples
    --------
    >>> display("zero_closed")
    'zero closed'
    >>> with labelled({"zero_closed": "closed-form mask"}):
    ...     display("zero_closed")
    'closed-form mask'
    """
    return _LABELS.get().get(name, name.replace("_", " "))
