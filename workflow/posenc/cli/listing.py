"""What ``params.yaml`` offers: names of studies, models, data sets, conditions and figures."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from posenc.conditions.section import dumped
from posenc.config.labels import display, labelled
from posenc.datasets.section import Dataset
from posenc.figures.catalogue import FIGURES
from posenc.frontends import forecast
from posenc.models.section import Model
from posenc.report.page_materials import source_of
from posenc.study import plan, storage
from posenc.study.explain import suggestion
from posenc.study.layers import Layers
from posenc.study.params import Params
from posenc.study.switch import StudyError

KINDS = ("studies", "models", "datasets", "conditions", "figures")
WIDTH = 96


def overview(params: Params) -> list[str]:
    """The names of each kind, in lines; the active study has a star."""
    lines = []
    for kind in KINDS:
        names = [f"*{n}" if _is_active(params, kind, n) else n for n in _words(params, kind)]
        lines.append(f"{kind} ({len(names)})")
        lines += textwrap.wrap(
            ", ".join(names), WIDTH, initial_indent="  ", subsequent_indent="  ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return [
        *lines,
        "* is the active study; `posenc list KIND` says more, as in `posenc list models`",
    ]


def listed(params: Params, kind: str) -> list[str]:
    """All entries of one kind, a line for each with a few words.

    Parameters
    ----------
    params
        The parameters.
    kind
        One of :data:`KINDS`.

    Raises
    ------
    StudyError
        If there is no such kind.
    """
    if kind not in KINDS:
        raise StudyError(f"there is no list of {kind!r}{suggestion(kind, KINDS)}")
    with labelled(params.figures.style.labels):
        words = _words(params, kind)
    width = max(map(len, words))
    star = " *" if kind == "studies" else "  "
    return [
        f"{star if _is_active(params, kind, name) else '  '}{name:{width}}  {text}".rstrip()
        for name, text in words.items()
    ]


def of_conditions(params: Params, layers: Layers, names: Sequence[str]) -> list[str]:
    """What each condition is called and does, in lines.

    Parameters
    ----------
    params
        The parameters.
    layers
        Where they come from, with the sentences about them.
    names
        The conditions that are asked for, which are shown with their keys; without any, all.

    Raises
    ------
    StudyError
        If there is no such condition.
    """
    lines = []
    for name in names:
        if name not in params.conditions:
            raise StudyError(f"there is no condition {name!r}{suggestion(name, params.conditions)}")
    with labelled(params.figures.style.labels):
        for name in names or params.conditions:
            label = _label(name)
            lines.append(f"{name} ({label})" if label else name)
            if said := layers.about.get(("conditions", name)):
                lines.append(f"    {said}")
            if names:
                keys = dumped(params.conditions[name])
                lines += [f"    {key}: {json.dumps(value)}" for key, value in keys.items()]
                for mask in params.conditions[name].masks():
                    lines.append(f"    the mask {mask}: {layers.about.get(('masks', mask), '')}")
                lines.append(f"    from: {layers.place(('conditions', name))[0]}")
    return lines


def of_studies(params: Params) -> list[str]:
    """What each study asks, and what of it is on disk, in lines; the active one has a star."""
    lines = []
    for name, study in params.studies.items():
        star = "*" if name == params.study.name else " "
        lines.append(f"{star} {name}: {_on_disk(params.model_copy(update={'study': study}))}")
        said = study.asks or study.title or ""
        lines += textwrap.wrap(said, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return [*lines, "* is the active study; `posenc study NAME` makes another one active"]


def _on_disk(params: Params) -> str:
    """How much of a study there is, when it was made last, how long its jobs took, and its size."""
    wanted = {path for name in params.study.measured for path in plan.files(params, name)}
    folder = plan.folder(params)
    files = [path for path in wanted if (folder / path).is_file()]
    if not files:
        return "not run here"
    last, size = max((folder / path).stat().st_mtime for path in files), storage.taken(folder)
    state = "whole" if len(files) == len(wanted) else f"{len(files)} of {len(wanted)} measurements"
    words = [state, f"{datetime.fromtimestamp(last):%Y-%m-%d %H:%M}"]
    if seconds := forecast.took(params.study.name, Path()):
        words.append(f"{forecast.spoken(seconds)} of jobs")
    return ", ".join([*words, f"{size / 1e6:,.0f} MB"])


def _is_active(params: Params, kind: str, name: str) -> bool:
    return kind == "studies" and name == params.study.name


def _source(section: Model | Dataset) -> str:
    return source_of(section.source.model_dump())


def _words(params: Params, kind: str) -> Mapping[str, str]:
    """Names of a kind, and what each is."""
    if kind == "figures":
        return {name: entry.caption.replace("*", "") for name, entry in FIGURES.items()}
    entries = getattr(params, kind)
    if kind == "studies":
        return {
            name: f"{study.title + ': ' if study.title else ''}"
            f"{', '.join([*study.models, *study.schemes, *study.matrices][:4])}; "
            f"{', '.join(study.datasets) or 'no data set'}"
            for name, study in entries.items()
        }
    if kind == "models":
        return {
            name: ", ".join(filter(None, [model.title, _source(model)]))
            for name, model in entries.items()
        }
    if kind == "datasets":
        return {name: f"{dataset.format}, {_source(dataset)}" for name, dataset in entries.items()}
    return {name: _label(name) for name in entries}


def _label(name: str) -> str:
    """What a name is shown as, where that is more than its words."""
    label = display(name)
    return "" if label == name.replace("_", " ") else label
