"""What a study reads from outside: is it on this machine, and is it what ``params.yaml`` means?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from posenc.artifacts.files import CHECKSUMS, ArtifactError
from posenc.datasets import fetch
from posenc.datasets.errors import DatasetError
from posenc.datasets.names import raw_file_name
from posenc.datasets.section import PathSource
from posenc.models import load
from posenc.models.files import TOKENIZER, ModelError, check_configuration, tokenizer_files
from posenc.models.matrices import PathMatrix
from posenc.models.section import HubSource
from posenc.models.tables import read_matrix
from posenc.study.params import Params


def problems(params: Params) -> Iterator[str]:
    """Say what the active study would stop at, one line each.

    What a run has fetched already is not looked for; the web and the hub are not asked.
    """
    study = params.study
    labelled = [] if study.labelled is None else [study.labelled]
    for name in dict.fromkeys([*study.all_datasets, *labelled, *study.corpora]):
        yield from _of_dataset(params, name)
    for name in study.pretrained:
        yield from _of_model(params, name)
    for name in study.matrices:
        section = params.matrices[name]
        if isinstance(section, PathMatrix):
            try:
                read_matrix(section, f"matrices.{name}")
            except ArtifactError as error:
                yield str(error)


def _of_dataset(params: Params, name: str) -> Iterator[str]:
    section = params.datasets[name]
    source, key = section.source, f"datasets.{name}.source"
    if not isinstance(source, PathSource):
        return
    if Path("data/raw", name, raw_file_name(source, section.format)).exists():
        return
    try:
        fetch.check_path(source, section.format, key)
    except DatasetError as error:
        yield str(error)


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
