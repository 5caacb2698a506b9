"""Switching the active study: one line of ``params.yaml``, everything else left as it is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from posenc.artifacts.files import replace_text
from posenc.study.params import load


class StudyError(RuntimeError):
    """The study cannot be made active."""


def activate(path: Path, name: str) -> None:
    """Have the line ``study: NAME`` name another study.

    Comments and layout stay. The line may be one of before, ``study: *NAME``.

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
    StudyError
        If the file has no line of that form.
    """
    load(path, {"study": name})
    read = path.read_text(encoding="utf-8")
    word = name if yaml.safe_load(name) == name else f'"{name}"'  # a study may be called `yes`
    text, replaced = re.subn(r"(?m)^study:.*$", f"study: {word}", read)
    if replaced != 1:
        raise StudyError(f"{path} must have exactly one line that begins with 'study:'")
    replace_text(path, read, text)
