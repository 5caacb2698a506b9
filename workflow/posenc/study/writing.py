"""Edits of ``params.yaml`` and files of studies: tried in a copy first, then made in one step."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from posenc.artifacts.files import ArtifactError, write_text
from posenc.study.layers import STUDIES, study_files
from posenc.study.params import Params, ParamsError, load


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


def create(path: Path, study: str, content: str) -> None:
    """Write the file of a new study, if the parameters are valid with it.

    Raises
    ------
    ParamsError
        If they would not be.
    ArtifactError
        If there is such a file already.
    """
    file = file_of(path, study)
    tried(path, {file: content})
    if file.exists():
        raise ArtifactError(f"{file} was saved meanwhile: run this again, or choose another name")
    write_text(file, content)
