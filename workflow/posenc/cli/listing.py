"""What ``params.yaml`` offers: names of studies, models, data sets, conditions and figures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from posenc.config.labels import display, labelled
from posenc.datasets.section import Dataset
from posenc.figures.catalogue import FIGURES
from posenc.models.section import Model
from posenc.report.page_materials import source_of
from posenc.study.explain import suggestion
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
    """What there is of one kind, a line for each with a few words.

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


def _is_active(params: Params, kind: str, name: str) -> bool:
    return kind == "studies" and name == params.study.name


def _source(section: Model | Dataset) -> str:
    return source_of(section.source.model_dump())


def _words(params: Params, kind: str) -> Mapping[str, str]:
    """Names of a kind, and what each is."""
    if kind == "figures":
        return {name: entry.caption.replace("*", "") for name, entry in FIGURES.items()}
    found = getattr(params, kind)
    if kind == "studies":
        return {
            name: f"{one.title + ': ' if one.title else ''}"
            f"{', '.join([*one.models, *one.schemes, *one.matrices][:4])}; "
            f"{', '.join(one.datasets) or 'no data set'}"
            for name, one in found.items()
        }
    if kind == "models":
        return {
            name: ", ".join(filter(None, [one.title, _source(one)])) for name, one in found.items()
        }
    if kind == "datasets":
        return {name: f"{one.format}, {_source(one)}" for name, one in found.items()}
    return {
        name: "" if display(name) == name.replace("_", " ") else display(name) for name in found
    }
