"""A study taken out of ``params.yaml``: every other line stays, and no result is deleted."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from posenc.artifacts.files import replace_text
from posenc.config.yaml_file import YamlFile
from posenc.study.explain import suggestion
from posenc.study.params import Params, ParamsError, load
from posenc.study.switch import StudyError

_ANCHOR = re.compile(r"(?:^|[\s\[{,:])&([^\s,\[\]{}]+)")


def check_removable(params: Params, name: str) -> None:
    """Refuse what cannot be removed whatever the file's lines are.

    Raises
    ------
    StudyError
        If there is no such study, or it is the active one.
    """
    if name not in params.studies:
        known = suggestion(name, params.studies)
        raise StudyError(f"there is no study {name!r} in params.yaml{known}")
    if name == params.study.name:
        raise StudyError(
            f"{name!r} is the active study: make another one active first, `posenc study NAME`"
        )


def take_out(path: Path, name: str) -> list[str]:
    """Take a study's lines out of ``params.yaml``.

    Its block goes with the comment directly above its key. All other lines stay as they are.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        A key of ``studies``, not the active one.

    Returns
    -------
    list of str
        Data sets that no study has any more, though this one had them.

    Raises
    ------
    StudyError
        If there is no such study, it is active, other lines refer to what stands in it, or its
        lines cannot be taken out alone.
    """
    params = load(path)
    check_removable(params, name)
    # In bytes, so that ends of lines stay as they are.
    read = path.read_bytes().decode("utf-8")
    lines = read.split("\n")
    first, _ = YamlFile(path).place(("studies", name))
    begin, end = _block(lines, first - 1)
    block, rest = lines[begin:end], [*lines[:begin], *lines[end:]]
    for anchor in _ANCHOR.findall("\n".join(line for line in block if not _is_comment(line))):
        for number, line in enumerate(lines, 1):
            if begin < number <= end or _is_comment(line):
                continue
            if re.search(rf"\*{re.escape(anchor)}(?![^\s,\[\]{{}}])", line):
                raise StudyError(
                    f"{path}:{number} refers to &{anchor}, which stands in studies.{name}: write "
                    f"there what it stands for, then remove the study"
                )
    text = "\n".join(rest)
    if not _is_alone(params, name, text):
        raise StudyError(
            f"{path}:{first}: the lines of studies.{name} cannot be taken out alone: edit them "
            f"yourself"
        )
    replace_text(path, read, text)
    others = {one for key, study in params.studies.items() if key != name for one in _texts(study)}
    return sorted(_texts(params.studies[name]) - others)


def _texts(study) -> set[str]:
    return {*study.all_datasets, *study.corpora}


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _block(lines: list[str], key: int) -> tuple[int, int]:
    """The lines of a key: with the comment above it, to the last line that is indented deeper."""
    depth, begin, end = _indent(lines[key]), key, key + 1
    while begin > 0 and _is_comment(lines[begin - 1]) and _indent(lines[begin - 1]) == depth:
        begin -= 1
    for number in range(key + 1, len(lines)):
        line = lines[number]
        if line.strip() and _indent(line) <= depth:
            break
        if line.strip():
            end = number + 1
    return begin, end


def _is_alone(params: Params, name: str, text: str) -> bool:
    """Whether a text says the same as the parameters, but for one study that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder) / "params.yaml"
        candidate.write_text(text, encoding="utf-8", newline="")
        try:
            now = load(candidate)
        except ParamsError:
            return False
    studies = {key: study for key, study in params.studies.items() if key != name}
    return now == params.model_copy(update={"studies": studies})
