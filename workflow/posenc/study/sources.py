"""What a study reads from outside: is it on this machine, and is it what ``params.yaml`` means?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    if_whole,
    read_sealed,
    sha256_file,
    verify,
)
from posenc.config.yaml_file import YamlError
from posenc.datasets import fetch, public
from posenc.datasets.documents import check_enough, read_metadata, splits_of
from posenc.datasets.errors import DatasetError
from posenc.datasets.parsing import parse
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import Content, PathSource, PublicSource, Source
from posenc.models import load
from posenc.models.files import TOKENIZER, ModelError, check_configuration, tokenizer_files
from posenc.models.matrices import PathMatrix
from posenc.models.section import HubSource
from posenc.models.tables import read_matrix
from posenc.study.layers import LayerError, Layers
from posenc.study.params import Params
from posenc.study.plan import DOCUMENTS

PARAMS = Path("params.yaml")


def problems(params: Params) -> Iterator[str]:
    """Say what the active study would stop at, one line each.

    What a run has fetched already is not looked for; the web and the hub are not asked.
    """
    study = params.study
    labelled = [] if study.labelled is None else [study.labelled]
    for name in dict.fromkeys([*study.all_datasets, *labelled, *study.corpora]):
        yield from of_dataset(params, name)
    for name in study.pretrained:
        yield from _of_model(params, name)
    for name in study.matrices:
        section = params.matrices[name]
        if isinstance(section, PathMatrix):
            try:
                read_matrix(section, f"matrices.{name}")
            except ArtifactError as error:
                yield str(error)


def places(params: Params) -> Iterator[str]:
    """Say where published data sets of the active study are taken from, one line each."""
    for name in params.study.all_datasets:
        source = params.datasets[name].source
        if not isinstance(source, PublicSource):
            continue
        if _is_copy(Path("data/raw", name, "raw"), source):
            yield f"{name}: fetched already"
        elif place := public.copy_here(source, name):
            yield f"{name}: from {public.own_copy(place, name)}"
        else:
            yield f"{name}: from {source.url}"


def of_dataset(params: Params, name: str) -> Iterator[str]:
    """Say what a run would stop at in a data set: its file is not there, is another one, or faulty.

    Parameters
    ----------
    params
        The parameters.
    name
        A key of ``datasets``.
    """
    section = params.datasets[name]
    source = section.source
    copy, documents = Path("data/raw", name, "raw"), DOCUMENTS / f"{name}.parquet"
    is_copied = _is_copy(copy, source)
    try:
        # A disk or a share that it came from may be gone since it was copied.
        if isinstance(source, PathSource) and (Path(source.path).exists() or not is_copied):
            fetch.check_path(source, section.format, name)
        if is_copied:
            raw = RawFile.of_source(source, name, copy)
        elif isinstance(source, PathSource):
            raw = RawFile.of_source(source, name, Path(source.path))
        elif isinstance(source, PublicSource) and (place := public.copy_here(source, name)):
            splits = public.check(public.own_copy(place, name), source, section.format, name)
            raw = None
        else:
            return
        if is_copied and _is_made(documents, section.content, copy):
            splits = splits_of(documents)
        elif raw is not None:
            splits = Counter(document["split"] for document in parse(raw, section.content))
        if name in params.study.datasets:
            evaluation = section.evaluation
            where = f"datasets.{name}.evaluation"
            check_enough(splits[evaluation.split], evaluation.documents, evaluation.split, where)
    except DatasetError as error:
        yield placed(str(error), name)


def placed(message: str, name: str) -> str:
    """A message on a data set, which says ``params.yaml``, with the line of its entry or its key.

    Parameters
    ----------
    message
        It may have a key, as in ``datasets.NAME.source.path``.
    name
        A key of ``datasets``.
    """
    key = re.search(rf"datasets\.{name}(?:\.\w+)*", message)
    location = tuple(key[0].split(".")) if key else ("datasets", name)
    try:
        line, _ = Layers(PARAMS).place(location)
    except (YamlError, LayerError):
        return message
    return message.replace("in params.yaml", f"in {line}")


def changed(params: Params) -> Iterator[str]:
    """Say which files of the active study are others than the ones that it has taken in.

    A file that is as long as the copy, and not saved since, is not read.
    """
    for name in params.study.all_datasets:
        source, copy = params.datasets[name].source, Path("data/raw", name, "raw")
        if not isinstance(source, PathSource) or not copy.exists():
            continue
        try:
            if _may_differ(Path(source.path), copy):
                fetch.check_path(source, params.datasets[name].format, name)
        except DatasetError as error:
            yield placed(str(error), name)


def _may_differ(path: Path, copy: Path) -> bool:
    if not path.exists():
        return False  # nothing reads it any more
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    taken = copy.stat()
    is_saved = any(file.stat().st_mtime > taken.st_mtime for file in files if file.exists())
    return is_saved or (path.is_file() and path.stat().st_size != taken.st_size)


def _is_copy(copy: Path, source: Source) -> bool:
    """Whether a run has fetched a source already."""
    checksums = copy.with_name(f"{copy.name}.json")
    try:
        verify(copy, checksums.name)
        return read_sealed(checksums).get("source") == source.model_dump()
    except ArtifactError:
        return False


def _is_made(documents: Path, content: Content, copy: Path) -> bool:
    """Whether documents were made of a raw file as the parameters have it."""
    metadata = if_whole(documents, read_metadata)
    return metadata is not None and (
        metadata["dataset"],
        metadata["inputs"]["raw"]["sha256"],
    ) == (
        content.model_dump(mode="json"),
        sha256_file(copy),
    )


def _of_model(params: Params, name: str) -> Iterator[str]:
    model = params.models[name]
    if isinstance(model.source, HubSource) or Path("data/models", name, CHECKSUMS).exists():
        return
    try:
        place = load.find(name, model)
        if place.is_dir():
            check_configuration(name, model, place)
            if not tokenizer_files(place):
                yield f"models.{name}: its folder has no {TOKENIZER}, nor vocab.json and merges.txt"
    except (ModelError, ArtifactError) as error:
        line = str(error)
        yield line if line.startswith(f"models.{name}") else f"models.{name}: {line}"
