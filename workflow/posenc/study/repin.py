"""A file of one's own that has changed: its new checksum where the old one stands."""

from __future__ import annotations

from pathlib import Path

from posenc.artifacts.files import replace_text
from posenc.datasets import fetch
from posenc.datasets.section import PathSource
from posenc.study import writing
from posenc.study.explain import suggestion
from posenc.study.layers import Layers
from posenc.study.params import Params, load
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
        If there is no such data set, its source is of another kind, or its checksum cannot be
        changed alone.
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
    new = fetch.checksum_of(fetch.find(source, section.format, name))
    if new == source.sha256:
        return f"{source.path} has not changed: {key}.sha256 stays as it is"
    said, _ = Layers(path).place(("datasets", name, "source", "sha256"))
    written, line = said.rsplit(":", 1)
    file = Path(written)
    # In bytes, so that ends of lines stay as they are.
    read = file.read_bytes().decode("utf-8")
    lines = read.split("\n")
    before = lines[int(line) - 1]
    lines[int(line) - 1] = before.replace(source.sha256, new)
    text = "\n".join(lines)
    if before.count(source.sha256) != 1 or not _is_alone(params, name, new, path, file, text):
        raise StudyError(
            f"{said}: the checksum of {name} cannot be changed there alone: write "
            f"`sha256: {new}` yourself"
        )
    replace_text(file, read, text)
    return f"{said}: {key}.sha256 is now {new}"


def _is_alone(params: Params, name: str, sha256: str, path: Path, file: Path, text: str) -> bool:
    """Whether a text says the same as the parameters, but for one checksum."""
    changed = writing.tried(path, {file: text})
    section = params.datasets[name]
    source = section.source.model_copy(update={"sha256": sha256})
    datasets = {**params.datasets, name: section.model_copy(update={"source": source})}
    return changed == params.model_copy(update={"datasets": datasets})
