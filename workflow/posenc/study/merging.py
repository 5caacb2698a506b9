"""What two layers say of one entry, as one."""

from __future__ import annotations

from typing import Any


def merged(lower: Any, upper: Any, section: str) -> Any:
    """What two layers say of an entry.

    Mappings are merged key by key, unless they are of different kinds. A study's keys are
    replaced whole: its mappings are of names.

    Examples
    --------
    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, "models")
    {'a': {'b': 1, 'c': 3}}
    >>> merged({"a": {"kind": "x", "c": 2}}, {"a": {"kind": "y"}}, "models")
    {'a': {'kind': 'y'}}
    >>> merged({"a": {"b": 1}}, {"a": {"c": 3}}, "studies")
    {'a': {'c': 3}}
    """
    if not isinstance(lower, dict) or not isinstance(upper, dict):
        return upper
    for tag in ("kind", "method"):
        if tag in upper and tag in lower and upper[tag] != lower[tag]:
            return upper
    if section == "studies":
        return {**lower, **upper}
    inner = {
        name: merged(lower[name], value, section) if name in lower else value
        for name, value in upper.items()
    }
    return {**lower, **inner}
