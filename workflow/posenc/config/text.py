"""Texts of ``params.yaml`` that no document could print."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

EMBEDDINGS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""Bidirectional classes of characters that change the direction of the text that follows."""
DEEPEST = 20


def unprintable(raw: Any, key: str = "") -> Iterator[str]:
    """Find what no document can print: control characters, and halves of a character.

    Parameters
    ----------
    raw
        A part of a parsed ``params.yaml``.
    key
        Its dotted key.

    Yields
    ------
    str
        A line for each text, with its key.
    """
    # An alias of YAML may hold itself.
    if isinstance(raw, Mapping | list) and key.count(".") < DEEPEST:
        parts = raw.items() if isinstance(raw, Mapping) else enumerate(raw)
        for part, value in parts:
            yield from unprintable(value, f"{key}.{part}" if key else str(part))
    for character in raw if isinstance(raw, str) else "":
        is_embedding = unicodedata.bidirectional(character) in EMBEDDINGS
        if is_embedding or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            shown = raw if len(raw) <= 40 else raw[:37] + "..."
            yield (
                f"{key}: {shown!r} contains the control character U+{ord(character):04X}: write it "
                f"in one line, without this character"
            )
            return
