"""Take a study out: its file is set aside, every other line stays, and no result is deleted."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from posenc.config.yaml_file import YamlFile
from posenc.study import writing
from posenc.study.explain import suggestion
from posenc.study.params import Params, ParamsError, load
from posenc.study.section import Study
from posenc.study.switch import StudyError


def check_removable(params: Params, name: str) -> None:
    """Refuse a study that cannot be removed, whatever its lines are.

    Raises
    ------
    StudyError
        If there is no such study, or it is the active one.
    """
    if name not in params.studies:
        raise StudyError(f"there is no study {name!r}{suggestion(name, params.studies)}")
    if name == params.study.name:
        raise StudyError(
            f"{name!r} is the active study: make another one active first, `posenc study NAME`"
        )


def take_out(path: Path, name: str, aside: Path) -> tuple[Path, list[str]]:
    """Set the file of a study aside.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        A study, not the active one.
    aside
        The folder that keeps its file.

    Returns
    -------
    Path
        Where its file is now.
    list of str
        Data sets that this study had and that no study has any more.

    Raises
    ------
    StudyError
        If there is no such study, it is active, it is defined in ``params.yaml``, or other files
        refer to what it defines.
    """
    params = load(path)
    check_removable(params, name)
    own = YamlFile(path)
    line, depth = own.place(("studies", name))
    if depth == 2:
        raise StudyError(f"{path}:{line} has lines of studies.{name}: take them out yourself first")
    file = writing.file_of(path, name)
    try:
        now = writing.tried(path, {file: None})
    except ParamsError as error:
        raise StudyError(f"{file} cannot go, as others refer to it: {error}") from None
    aside.mkdir(parents=True, exist_ok=True)
    numbers = itertools.chain([""], (f".{number}" for number in itertools.count(1)))
    places = (aside / f"{name}{number}.yaml" for number in numbers)
    kept = next(place for place in places if not place.exists())
    shutil.copy2(file, kept)  # what a link leads to; and `data` may be on another disk
    file.unlink()
    others = {dataset for study in now.studies.values() for dataset in _texts(study)}
    return kept, sorted((_texts(params.studies[name]) - others) & set(now.datasets))


def _texts(study: Study) -> set[str]:
    return {*study.all_datasets, *study.corpora}
