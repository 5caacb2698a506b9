"""Edits of ``params.yaml`` and files of studies: tried in a copy first, then made in one step."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from posenc.artifacts.files import ArtifactError, check_writable, replace_text, write_text
from posenc.config.yaml_file import YamlError, YamlFile
from posenc.study.params import Params, ParamsError, load
from posenc.study.study_files import STUDIES, study_files


def file_of(path: Path, study: str) -> Path:
    """The file of a study, beside ``params.yaml``."""
    return path.parent / STUDIES / f"{study}.yaml"


def tried(path: Path, changes: Mapping[Path, str | None]) -> Params:
    """What the parameters would be after some edits, none of which is made.

    Parameters
    ----------
    path
        ``params.yaml``.
    changes
        What files are to hold, by path; None for a file that goes.

    Raises
    ------
    ParamsError
        If they would be wrong.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copyfile(path, folder / path.name)
        (folder / STUDIES).mkdir()
        for study in study_files(path):
            shutil.copyfile(study, folder / STUDIES / study.name)
        for changed, content in changes.items():
            copy = folder / changed.relative_to(path.parent)
            if content is None:
                copy.unlink()
            else:
                copy.write_bytes(content.encode())
        try:
            return load(folder / path.name)
        except ParamsError as error:
            own = "" if path.parent == Path() else f"{path.parent}/"
            raise ParamsError(str(error).replace(f"{folder}/", own)) from None


def exchange(path: Path, file: Path, location: tuple, word: str, meant: Params) -> None:
    """Write another word as one value of a file; every other character stays.

    Parameters
    ----------
    path
        ``params.yaml``.
    file
        It, or the file of a study.
    location
        Keys and indices of the value in the file.
    word
        The new value.
    meant
        What the parameters are to be then.

    Raises
    ------
    ParamsError
        If they would be wrong.
    ArtifactError
        If they would be others, or the file cannot be written.
    """
    held, after = _changed(file, location, word)
    if after == held.text:
        return
    check_writable(file)
    if tried(path, {file: after}) != meant:
        line, _ = held.place(location)
        key = ".".join(map(str, location))
        raise ArtifactError(
            f"{file}:{line}: {key} cannot be changed there alone: write `{location[-1]}: {word}` "
            f"yourself"
        )
    replace_text(file, held.text, after)


def _changed(file: Path, location: tuple, word: str) -> tuple[YamlFile, str]:
    try:
        held = YamlFile(file)
        return held, held.changed(location, word)
    except YamlError as error:
        raise ParamsError(str(error)) from None


def create(path: Path, study: str, content: str) -> None:
    """Write the file of a new study, if the parameters are valid with it as the active one.

    Raises
    ------
    ParamsError
        If they would not be.
    ArtifactError
        If there is such a file already, or ``params.yaml`` cannot be written.
    """
    file = file_of(path, study)
    check_writable(path)
    _, active = _changed(path, ("study",), study)
    tried(path, {file: content, path: active})
    if os.path.lexists(file):
        raise ArtifactError(f"{file} changed meanwhile: run this again, or choose another name")
    write_text(file, content)
