"""JSON files of a model's folder, and what to do about a damaged file in it."""

from __future__ import annotations

import json
from pathlib import Path

from posenc.artifacts.files import CHECKSUMS, ArtifactError, JsonObject

BYTE_ORDER_MARK = "\ufeff"
_FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def is_made_here(path: Path) -> bool:
    """Whether the workflow wrote a file of a model's folder, and can write it again."""
    return (path.parent / CHECKSUMS).is_file()


def way_out(path: Path) -> str:
    """What to do about a damaged file: one of the user's own is never deleted."""
    return "delete it and rerun" if is_made_here(path) else "download it again"


def read_mapping(path: Path, meant: str = "a mapping") -> JsonObject:
    """The mapping in a JSON file, with the numbers that the library writes as objects.

    Parameters
    ----------
    path
        The file.
    meant
        What it should hold, for messages.

    Raises
    ------
    ArtifactError
        If it is not JSON, or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if text.startswith(BYTE_ORDER_MARK):
            raise ArtifactError(
                f"{path} begins with a byte order mark, which JSON may not have: save it as UTF-8 "
                f"without one"
            )
        value = json.loads(text, object_hook=_decoded)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not valid JSON ({error}); {way_out(path)}") from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} holds a {type(value).__name__}, not {meant}; {way_out(path)}")
    return value


def _decoded(value: JsonObject) -> JsonObject | float:
    """An infinity, or no number, where an object is what the library writes in its place."""
    tag = value.get("__float__")
    return _FLOATS.get(tag, value) if len(value) == 1 and isinstance(tag, str) else value
