"""Texts of ``params.yaml`` that no document could print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, separators of lines and paragraphs, what changes the direction of the text
that follows, and halves of a character."""
DEEPEST = 20


def unprintable(raw: Any, location: tuple = ()) -> Iterator[tuple[tuple, str]]:
    """Find what no document can print: control characters, and halves of a character.

    Parameters
    ----------
    raw
        A part of a parsed ``params.yaml``.
    location
        Its keys and indices.

    Yields
    ------
    tuple
        For each text, where it is, and what is wrong with it.
    """
    # A YAML alias may hold itself.
    if isinstance(raw, Mapping | list) and len(location) < DEEPEST:
        parts = raw.items() if isinstance(raw, Mapping) else enumerate(raw)
        for part, value in parts:
            yield from unprintable(value, (*location, part))
    character = CONTROL.search(raw) if isinstance(raw, str) else None
    if character is not None:
        shown = raw if len(raw) <= 40 else raw[:37] + "..."
        yield (
            location,
            f"{shown!r} contains the control character U+{ord(character[0]):04X}: write it in one "
            f"line, without this character",
        )
