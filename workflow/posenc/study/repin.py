"""A file of one's own that has changed: its new checksum where the old one stands."""

from __future__ import annotations

from pathlib import Path

from posenc.datasets import fetch
from posenc.datasets.errors import DatasetError
from posenc.datasets.section import PathSource
from posenc.study import writing
from posenc.study.explain import suggestion
from posenc.study.layers import Layers
from posenc.study.params import load
from posenc.study.sources import placed
from posenc.study.switch import StudyError


def write_checksum(path: Path, name: str) -> str:
    """Write the checksum that a data set's file has now in the place of the old one.

    All other lines stay as they are, comments included.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        A data set whose source is of kind ``path``.

    Returns
    -------
    str
        What was done, in a line.

    Raises
    ------
    DatasetError
        If the file is not there.
    StudyError
        If there is no such data set, or its source is of another kind.
    ArtifactError
        If its checksum cannot be changed alone, or the file cannot be written.
    """
    params = load(path)
    if name not in params.datasets:
        raise StudyError(f"there is no data set {name!r}{suggestion(name, params.datasets)}")
    section = params.datasets[name]
    source, key = section.source, f"datasets.{name}.source"
    if not isinstance(source, PathSource):
        raise StudyError(
            f"{key}.kind is {source.kind!r}, and only a file on this machine is pinned anew: edit "
            f"{key}"
        )
    try:
        new = fetch.checksum_of(fetch.find(source, section.format, name))
    except DatasetError as error:
        raise DatasetError(placed(str(error), name)) from None
    if new == source.sha256:
        return f"{source.path} has not changed: {key}.sha256 stays as it is"
    said, (file, location) = Layers(path).place(("datasets", name, "source", "sha256"))
    pinned = source.model_copy(update={"sha256": new})
    datasets = {**params.datasets, name: section.model_copy(update={"source": pinned})}
    writing.exchange(path, file, location, new, params.model_copy(update={"datasets": datasets}))
    return f"{said}: {key}.sha256 is now {new}"
