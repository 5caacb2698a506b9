"""A study of one's own to begin with, as a file of its own; everything else stays."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from posenc.datasets.fetch import checksum_of
from posenc.datasets.look import Look, look
from posenc.models.section import TrainSource
from posenc.study import writing
from posenc.study.explain import suggestion
from posenc.study.params import Params, load
from posenc.study.study_files import why_no_name
from posenc.study.switch import StudyError

HEAD = "# yaml-language-server: $schema=../workflow/schemas/study.schema.json\n"
DATASET = """\
  # `documents` of them are evaluated, null for all.
  {name}:
    format: {format}
{column}    source: {source}
    text: {{line_breaks: {line_breaks}, normalization: none}}
    evaluation: {{split: {split}, documents: {documents}, seed: 0}}
"""
OF_THIS_COMMAND = ("/dev/std", "/dev/fd/", "/proc/")
"""Names of what a command is given begin so; no run finds it again."""
MOST_DOCUMENTS = 1000
"""That a study begins with: more take long, and its file says how many."""
STUDY = """\
# Written by `posenc new`: docs/studies.md says what else a study can have.
asks: What does {model} do without positions?
models: [{model}]
# Of those, the ones whose weights are fetched, and the ones whose hidden states are kept.
pretrained: [{model}]
captured: [{model}]
datasets: [{dataset}]
# More conditions (`posenc conditions`) go under `evaluated`, which keeps no hidden states.
conditions: [intact, zero]
# Beside similarity and perplexity. Without the line: all; the same goes for figures.
measurements: []
figures: [layer_similarity]
"""


def write_study(
    path: Path,
    name: str,
    model: str,
    text: Path | None,
    column: str | None = None,
    entry: str | None = None,
) -> list[str]:
    """Write the file of a small study: one model, one data set, with and without positions.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        Of the study, and of the data set if there is a text.
    model
        A key of ``models`` whose weights are fetched.
    entry
        Lines of the model, where there is no such model yet.
    text
        A file or a folder of texts, see :mod:`posenc.datasets.look`. Without it, the study's data
        set is the first one.
    column
        The column of a table that holds the texts.

    Returns
    -------
    list of str
        What the text is, in lines.

    Raises
    ------
    DatasetError
        If the text cannot be read.
    StudyError
        If the name is none, there is such a study or data set already, no such model or file, or
        too few documents.
    ParamsError
        If the name is taken by the workflow.
    """
    params = load(path)
    check_name(params, name, [] if text is None else [name])
    if entry is None and model not in params.models:
        raise StudyError(f"there is no model {model!r}{suggestion(model, params.models)}")
    if entry is None and isinstance(params.models[model].source, TrainSource):
        raise StudyError(
            f"{model!r} is trained here, and a study says on what: take a model whose weights are "
            f"fetched, or copy a study that trains one"
        )
    dataset = next(iter(params.datasets))
    said: list[str] = []
    defined = {"models": [] if entry is None else [entry]}
    if text is not None:
        dataset = name
        block, said = dataset_of(name, text, column, looked_at(text, column))
        defined["datasets"] = [block]
    elif column is not None:
        raise StudyError(f"--column {column} is of a table: name it as --text FILE")
    content = STUDY.format(model=word(model), dataset=word(dataset))
    writing.create(path, name, f"{HEAD}{content}{definitions(defined)}")
    return said


def definitions(blocks: Mapping[str, Iterable[str]]) -> str:
    """The part of a study's file that defines entries, whose lines are as in ``params.yaml``."""
    sections = [
        f"  {section}:\n{textwrap.indent(''.join(entries), '  ')}"
        for section, entries in blocks.items()
        if entries
    ]
    return "".join(["\ndefine:\n", *sections]) if sections else ""


def check_name(params: Params, name: str, datasets: Iterable[str]) -> None:
    """Refuse a name that no study can have, or that is taken by one; data sets, too.

    Raises
    ------
    StudyError
        If the name is taken, or cannot be one.
    """
    if reason := why_no_name(name):
        raise StudyError(f"a study cannot be called {name!r}: {reason}")
    if name in params.studies:
        raise StudyError(f"there is a study {name!r} already: choose another name")
    for dataset in datasets:
        if dataset in params.datasets:
            raise StudyError(f"there is a data set {dataset!r} already: choose another name")


def looked_at(text: Path, column: str | None) -> Look:
    """What a file or folder of one's own holds.

    Raises
    ------
    StudyError
        If it is not there, will be gone later, or has a name that is not UTF-8.
    DatasetError
        If it cannot be read.
    """
    if not text.exists():
        raise StudyError(f"there is no file {text}")
    if str(text.absolute()).startswith(OF_THIS_COMMAND):
        raise StudyError(f"{text} is gone after this command: save it as a file, and name that")
    try:
        str(text).encode()
    except UnicodeEncodeError:
        raise StudyError(f"the name {str(text)!a} is not UTF-8: rename it") from None
    return look(text, column)


def dataset_of(name: str, text: Path, column: str | None, looked: Look) -> tuple[str, list[str]]:
    """The entry of a data set, and what it is in lines.

    Raises
    ------
    StudyError
        If it has too few documents.
    """
    split, count = looked.largest_split
    if count < 2:
        raise StudyError(
            f"{text} has too few documents ({count}), and a study needs two: give it more text"
        )
    said = [looked.summary]
    documents = "null"
    if count > MOST_DOCUMENTS:
        documents = str(MOST_DOCUMENTS)
        said.append(
            f"{MOST_DOCUMENTS:,} of the {count:,} documents of the split {split} are evaluated: "
            f"datasets.{name}.evaluation.documents in its file"
        )
    source = {"kind": "path", "path": str(text), "sha256": checksum_of(text)}
    block = DATASET.format(
        name=word(name), format=looked.format, source=_flow(source), split=split,
        documents=documents,
        column="" if column is None else f"    column: {word(column)}\n",
        line_breaks="newline" if looked.format == "imdb" else "keep",
    )  # fmt: skip
    return block, said


def word(text: str) -> str:
    """A text as YAML, with quotation marks where some reader needs them."""
    return _flow([text])[1:-1]


def _flow(value: Any) -> str:
    """A value as YAML in one line, with quotation marks where it needs them."""
    options = {"default_flow_style": True, "allow_unicode": True, "sort_keys": False}
    return yaml.safe_dump(value, width=math.inf, **options).rstrip("\n")
