"""The stages of ``dvc.yaml`` that a study needs.

DVC resolves its templates before anything runs and cannot leave out an input, so the stages of
measurements, figures and documents that a study does not have are taken out of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from posenc.study.declared import EXPERIMENTS, OPTIONAL
from posenc.study.params import Params
from posenc.study.plan import figures

FILE = Path("dvc.yaml")
STAGE = re.compile(r"(?m)(?:^  #.*\n)*^  (?P<name>\w+):\n(?:^    .*\n)*\n?")
"""A stage with the comment above it."""
PATH = re.compile(
    r"^ +- (?:\S*/(?:measurements|trials)/(?P<measurement>\w+)"
    r"|data/figures/(?P<figure>\w+)\.|paper/(?P<document>paper|slides)\.pdf)"
)


class StagesError(ValueError):
    """``dvc.yaml`` does not fit the active study."""


def _is_lacking(line: str, params: Params) -> bool:
    """Whether a line names a file that the active study does not have."""
    found = PATH.match(line)
    if found is None:
        return False
    study = params.study
    if (name := found["measurement"]) is not None:
        return name in (*OPTIONAL, *EXPERIMENTS) and name not in study.measured
    if (name := found["figure"]) is not None:
        return name not in figures(params)
    return found["document"] not in study.documents


def needed(text: str, params: Params) -> str:
    """``dvc.yaml`` without the stages and inputs that the active study does not have.

    Parameters
    ----------
    text
        The whole file, or one that fewer stages are left in.
    params
        The parameters.

    Returns
    -------
    str
        All else is as it was, comments included.
    """

    def kept(match: re.Match[str]) -> str:
        inputs, outs, outputs = match[0].partition("outs:\n")
        if any(_is_lacking(line, params) for line in outputs.splitlines()):
            return ""
        lines = inputs.splitlines(keepends=True)
        return "".join(line for line in lines if not _is_lacking(line, params)) + outs + outputs

    return STAGE.sub(kept, text)


def check(params: Params) -> None:
    """Compare ``dvc.yaml``, if there is one, with the active study.

    Raises
    ------
    StagesError
        If it has a stage of something that the study does not have, or lacks one.
    """
    if not FILE.exists():
        return
    text = FILE.read_text(encoding="utf-8")
    if needed(text, params) != text:
        raise StagesError(
            f"{FILE} has stages that study {params.study.name!r} does not have: run "
            f"`posenc stages`, which takes them out"
        )
    study = params.study
    made: dict[str, tuple[Sequence[str], str]] = {
        "measurements": ([n for n in study.measured if n in (*OPTIONAL, *EXPERIMENTS)], r"[/.\n]"),
        "data/figures": (figures(params), r"\.pdf"),
        "paper": (study.documents, r"\.pdf"),
    }
    for folder, (names, end) in made.items():
        for name in names:
            if re.search(rf"{folder}/{name}{end}", text):
                continue
            raise StagesError(
                f"{FILE} has no stage of {folder}/{name}, which study {study.name!r} has: take "
                f"{FILE} back from git, then run `posenc stages`"
            )
