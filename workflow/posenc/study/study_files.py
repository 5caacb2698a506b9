"""The files of studies beside ``params.yaml``: which there are, and which cannot be one."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from posenc.config.base import Name

STUDIES = Path("studies")
"""Beside ``params.yaml``."""
_SUFFIX = ".yaml"
_NAME: TypeAdapter[str] = TypeAdapter(Name)


class LayerError(ValueError):
    """The layers do not fit together; the message has the file, the line and the way out."""


def study_files(path: Path) -> list[Path]:
    """The files of studies beside ``params.yaml``, in order, without what editors leave there.

    Raises
    ------
    LayerError
        If a file is named as no study can be, or is not read for its ending: it says so of each.
    """
    files = sorted((path.parent / STUDIES).glob("[!.]*.*"))
    named = [file for file in files if file.suffix.lower() in (_SUFFIX, ".yml")]
    if problems := [line for file in named if (line := _problem(file))]:
        raise LayerError("\n".join(problems))
    return named


def _problem(file: Path) -> str | None:
    if file.suffix != _SUFFIX:
        return f"{file}: the file of a study ends in {_SUFFIX}: rename it, or move it away"
    if reason := why_no_name(file.stem):
        return (
            f"{file}: a study cannot be called {file.stem!r}: {reason}; rename it, or move it away"
        )
    if file.is_symlink() and not file.exists():
        return f"{file}: is a link to a file that is not there"
    return None


def why_no_name(word: str) -> str | None:
    """What is to be done about a word that cannot name an entry; None if it can."""
    try:
        _NAME.validate_python(word)
    except ValidationError as error:
        if error.errors()[0]["type"] == "string_too_long":
            return f"it has {len(word)} letters, and 64 are the most"
        return "take lower-case letters, digits and underscores, a letter first"
    return None
