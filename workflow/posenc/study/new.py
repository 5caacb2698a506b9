"""A study of one's own to begin with, written into ``params.yaml``; everything else stays."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from posenc.artifacts.files import sha256_file, write_text
from posenc.config.base import Name
from posenc.models.section import TrainSource
from posenc.study.explain import suggestion
from posenc.study.params import ParamsError, load
from posenc.study.switch import StudyError

DATASET = """
  # A document per line; `documents` of them are evaluated, null for all.
  {name}:
    format: text
    source: {{kind: path, path: {path}, sha256: {sha256}}}
    text: {{line_breaks: keep, normalization: none}}
    evaluation: {{split: test, documents: null, seed: 0}}
"""
STUDY = """  # Written by `posenc new`: docs/studies.md says what else a study can have.
  {name}: &{name}
    name: {name}
    models: [{model}]
    # Of those, the ones whose weights are fetched, and the ones whose hidden states are kept.
    pretrained: [{model}]
    captured: [{model}]
    datasets: [{dataset}]
    # Keys of `conditions`. More go under `evaluated`, which keeps no hidden states.
    conditions: [intact, zero]
    # Beside similarity and perplexity. Without the line: all; the same goes for figures.
    measurements: []
    figures: [layer_similarity]
"""


def write_study(
    path: Path, name: str, model: str, text: Path | None, entry: str | None = None
) -> None:
    """Add a small study to ``params.yaml``: one model, one data set, with and without positions.

    Parameters
    ----------
    path
        ``params.yaml``.
    name
        Of the study, and of the data set if there is a text.
    model
        A key of ``models`` whose weights are fetched.
    entry
        Lines of the model, where ``models`` has it not yet.
    text
        A file with a document per line. Without it, the study's data set is the first one.

    Raises
    ------
    StudyError
        If the name is none, there is such a study or data set already, no such model or file, or no
        place for it in ``params.yaml``.
    ParamsError
        If the name is taken by the workflow.
    """
    params = load(path)
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise StudyError(
            f"a study cannot be called {name!r}: take lower-case letters, digits and underscores, "
            f"a letter first"
        ) from None
    if name in params.studies or (text is not None and name in params.datasets):
        kind = "study" if name in params.studies else "data set"
        raise StudyError(f"{path} has a {kind} {name!r} already: choose another name")
    if entry is None and model not in params.models:
        raise StudyError(f"there is no model {model!r} in {path}{suggestion(model, params.models)}")
    if entry is None and isinstance(params.models[model].source, TrainSource):
        raise StudyError(
            f"{model!r} is trained here, and a study says on what: take a model whose weights are "
            f"fetched, or copy a study that trains one"
        )
    content = path.read_text(encoding="utf-8")
    if entry is not None:
        content = _added(content, "models", entry)
    dataset = next(iter(params.datasets))
    if text is not None:
        if not text.is_file():
            raise StudyError(f"there is no file {text}")
        dataset = name
        block = DATASET.format(name=name, path=text, sha256=sha256_file(text))
        content = _added(content, "datasets", block)
    content = _added(content, "studies", STUDY.format(name=name, model=model, dataset=dataset))
    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder) / path.name
        candidate.write_text(content, encoding="utf-8")
        try:
            load(candidate)
        except ParamsError as error:
            raise ParamsError(str(error).replace(str(candidate), str(path))) from None
    write_text(path, content)


def _added(content: str, section: str, block: str) -> str:
    """The file with some lines at the end of one of its sections."""
    found = re.search(rf"(?m)^{section}:[^\n]*\n((?:[ \t][^\n]*\n|[ \t]*\n)*)", content)
    if found is None:
        raise StudyError(f"params.yaml has no section {section!r} of its own lines")
    end = found.start(1) + len(found[1].rstrip("\n")) + 1
    return content[:end] + block + content[end:]
