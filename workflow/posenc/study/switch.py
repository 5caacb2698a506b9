"""Switching the active study: one word of ``params.yaml``, everything else left as it is."""

from __future__ import annotations

from pathlib import Path

from posenc.study import writing
from posenc.study.params import load


class StudyError(RuntimeError):
    """The study cannot be made active."""


def activate(path: Path, name: str) -> None:
    """Have ``study: NAME`` name another study.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        A key of ``studies``.

    Raises
    ------
    ParamsError
        If there is no such study, or the file is wrong.
    ArtifactError
        If the file cannot be written.
    """
    writing.exchange(path, path, ("study",), name, load(path, {"study": name}))
