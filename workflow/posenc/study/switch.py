"""Switching the active study: one alias in ``params.yaml``, everything else left as it is."""

from __future__ import annotations

import re
from pathlib import Path

from posenc.artifacts.files import replace_text
from posenc.study.explain import suggestion
from posenc.study.params import load


class StudyError(RuntimeError):
    """The study cannot be made active."""


def activate(path: Path, name: str) -> None:
    """Point the line ``study: *NAME`` at another study.

    Comments and layout stay. `dvc exp run -S` drops anchors that nothing refers to; a missing
    one is put back.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        A key of ``studies``.

    Raises
    ------
    StudyError
        If there is no such study, or the file has no line of that form.
    """
    known = load(path).studies
    if name not in known:
        raise StudyError(f"there is no study {name!r} in {path}{suggestion(name, known)}")
    text = read = path.read_text(encoding="utf-8")
    text, replaced = re.subn(r"(?m)^study:.*$", f"study: *{name}", text)
    if replaced != 1:
        raise StudyError(f"{path} must have exactly one line that begins with 'study:'")
    # A program that wrote the file may have given it another anchor, or none.
    # A data set or a condition may have the same name.
    found = re.search(r"(?m)^studies:", text)
    begin = found.end() if found else 0
    own = re.sub(rf"(?m)^(  {name}:)(?: &\S+)?[ \t]*$", rf"\1 &{name}", text[begin:], count=1)
    text = text[:begin] + own
    if f"&{name}\n" not in text:
        raise StudyError(f"{path}: studies.{name} needs the anchor &{name} behind its key")
    replace_text(path, read, text)
