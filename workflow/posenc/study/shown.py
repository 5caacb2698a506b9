"""One parameter: its value, where it comes from, what it means, and which jobs it reaches."""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import inspect
import json
import sys
import textwrap
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from posenc.config.base import Section
from posenc.drawing.section import Figure
from posenc.study import configs
from posenc.study.explain import suggestion
from posenc.study.layers import Layers
from posenc.study.params import Params
from posenc.study.schema import field_docstrings
from posenc.study.section import Study

WIDTH = 96
PLACES = Path(__file__).parents[3]
"""The checkout, below which declarations lie."""


class UnknownParameterError(KeyError):
    """There is no parameter of this name; the message names similar ones."""

    def __str__(self) -> str:
        return str(self.args[0])


def is_parameter(key: str) -> bool:
    """Whether a dotted key begins with a section of ``params.yaml``."""
    return key.split(".")[0] in Params.model_fields


def meant(params: Params, key: str) -> str:
    """A hint for a key that no number has, if it is like that of a parameter."""
    first, *others = key.split(".")
    sections = {name: getattr(params, name) for name in Params.model_fields if name != "study"}
    begins = [["study"]] if first in Study.model_fields else []
    begins += [[name] for name, section in sections.items() if first in _children(section)]
    close = difflib.get_close_matches(first, sections, n=1, cutoff=0.7)
    for path in filter(None, (*([*begin, first, *others] for begin in begins), [*close, *others])):
        with contextlib.suppress(UnknownParameterError):
            list(_nodes(params, _path_of(params, path)))
            return f"; did you mean the parameter {'.'.join(path)!r}?"
    return f"; a parameter's path begins with {close[0]!r}" if close else ""


def _path_of(params: Params, words: Sequence[str]) -> list[str]:
    """Where a parameter is, from the whole on, by the words of its key."""
    first, *others = words
    if len(others) > 1 and others[-1] == "shown_as":  # beside the entry, in the file
        return ["figures", "style", "labels", others[-2]]
    # The active study is one of studies.
    return ["studies", params.study.name, *others] if first == "study" else [first, *others]


def described(params: Params, key: str, path: Path) -> list[str]:
    """What is known about a parameter, in lines.

    Parameters
    ----------
    params
        The parameters, with the study that is asked about.
    key
        Dotted, as in ``measurements.similarity.seed``.
    path
        ``params.yaml``, for its lines.

    Raises
    ------
    UnknownParameterError
        If there is no such parameter.
    """
    words = key.split(".")
    parts = _path_of(params, words)
    if words[-1] == "shown_as":
        key = ".".join(parts)
    nodes = list(_nodes(params, parts))
    value = _effective(params, parts, nodes[-1])
    if parts[0] == "studies" and parts[2:3] == ["parameters"]:
        if len(parts) > 3 and value is None:
            of_study = params.model_copy(update={"study": params.studies[parts[1]]})
            usual = described(of_study, ".".join(["measurements", *parts[3:]]), path)
            return [f"{key}: not set; the study has", *(f"  {line}" for line in usual)]
        if isinstance(value, Section):
            value = {name: getattr(value, name) for name in value.model_fields_set}
            if not value:
                return [f"{key}: nothing is set: all is as in measurements"]
    origin = functools.partial(_origin, params, Layers(path))
    lines = [key if isinstance(value, Section | dict) else f"{key}: {_written(value)}"]
    lines += textwrap.wrap(
        _sentence(nodes, parts[-1]), WIDTH, initial_indent="  ", subsequent_indent="  "
    )
    if isinstance(value, Section | dict):
        inner = dict(value) if isinstance(value, Section) else value
        for name, part in inner.items():
            lines.append(f"  {name}: {_written(part)}  ({origin([*parts, name])})")
    else:
        lines.append(f"  from: {origin(parts)}")
    if not _holds_sections(value):
        lines += _reach_in_lines(params, parts)
    return lines


def _children(node: Any) -> Mapping[str, Any]:
    if isinstance(node, Section):
        return {name: getattr(node, name) for name in type(node).model_fields}
    if isinstance(node, dict):
        return node
    return {str(index): item for index, item in enumerate(node)} if isinstance(node, list) else {}


def _nodes(params: Params, parts: Sequence[str]) -> Iterator[Any]:
    """The whole, and what each part of a path leads to."""
    node: Any = params
    yield node
    for depth, part in enumerate(parts):
        known = _children(node)
        if part not in known:
            where = ".".join(parts[:depth])
            if not known:
                raise UnknownParameterError(f"{where} is {_written(node)}, which has no parts")
            raise UnknownParameterError(
                f"there is no {part!r} in {where or 'params.yaml'}{suggestion(part, known)}"
            )
        node = known[part]
        yield node


def _effective(params: Params, parts: Sequence[str], value: Any) -> Any:
    """A value with the study's changes to it."""
    if parts[0] == "measurements":
        *_, value = _nodes(params.model_copy(update={"measurements": params.parameters}), parts)
    return value


def _changed_by_study(params: Params, parts: Sequence[str]) -> bool:
    if parts[0] != "measurements" or len(parts) < 3:
        return False
    changes = getattr(params.study.parameters, parts[1])
    return parts[2] in changes.model_fields_set


def _origin(params: Params, layers: Layers, parts: Sequence[str]) -> str:
    """Where a value was set: a line of a file, or the declaration of its default."""
    if _changed_by_study(params, parts):
        parts = ["studies", params.study.name, "parameters", *parts[1:]]
        return f"{_line(layers, parts)}, parameters of the study {params.study.name}"
    fields = [
        (type(node), name, name in node.model_fields_set)
        for node, name in zip(_nodes(params, parts), parts, strict=False)
        if isinstance(node, Section)
    ]
    if all(is_written for *_, is_written in fields):
        return _line(layers, parts)
    section, name = next(
        (section, name)
        for section, name, _ in reversed(fields)
        if not section.model_fields[name].is_required()
    )
    return ", ".join(filter(None, ("default", _declared(section, name))))


def _line(layers: Layers, parts: Sequence[str]) -> str:
    if list(parts) == ["figures", "style", "labels"]:
        return "catalogue, and `shown_as` of entries"
    said, _ = layers.place(tuple(int(part) if part.isdigit() else part for part in parts))
    return said


def _declared(section: type[Section], name: str) -> str:
    """File and line of a field."""
    if issubclass(section, Figure) and name in Figure.model_fields:
        return str(Path(str(sys.modules[section.__module__].__file__)).relative_to(PLACES))
    for base in section.__mro__:
        try:
            lines, first = inspect.getsourcelines(base)
        except (OSError, TypeError):  # put together by pydantic, or built into Python
            continue
        tree = ast.parse(textwrap.dedent("".join(lines)))
        for node in tree.body[0].body:  # type: ignore[attr-defined]
            match node:
                case ast.AnnAssign(target=ast.Name(field)) if field == name:
                    source = Path(inspect.getfile(base)).relative_to(PLACES)
                    return f"{source}:{first + node.lineno - 1}"
    return ""


def _sentence(nodes: Sequence[Any], name: str) -> str:
    """What its field or its section says about a parameter."""
    holder, value = nodes[-2:]
    if isinstance(holder, Section):
        section = type(holder)
        said = field_docstrings(section).get(name) or section.model_fields[name].description
        if said:
            return " ".join(said.split()).replace("``", "`")
    doc = type(value).__doc__ if isinstance(value, Section) else None
    return " ".join((doc or "").split("\n\n")[0].split()).replace("``", "`")


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        # As it is written; a default is written nowhere, so it is shown whole.
        return value.model_dump(exclude_unset=bool(value.model_fields_set), warnings=False)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value


def _written(value: Any) -> str:
    text = json.dumps(_plain(value), ensure_ascii=False, default=str)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _holds_sections(value: Any) -> bool:
    """Whether a value is a mapping of entries, each with jobs of its own, or a whole study."""
    if isinstance(value, Study):
        return True
    parts = value.values() if isinstance(value, dict) else []
    if isinstance(value, Section):
        parts = [part for _, part in value]
        return len(parts) > 1 and all(isinstance(part, Section | dict) for part in parts)
    return any(isinstance(part, Section | dict) for part in parts)


def _reach_in_lines(params: Params, parts: Sequence[str]) -> list[str]:
    study = params.study.name
    reached = reach(params, parts)
    if reached is None:
        return [f"  reaches: whatever names it in the study {study}; `posenc plan` says what"]
    folders: dict[str, list[str]] = {}
    for path in sorted(reached):
        if configs.OTHERS not in path.parents:
            folder = str(path.parent.relative_to(configs.CONFIG))
            folders.setdefault(folder, []).append(path.stem)
    if not folders:
        return [f"  reaches: nothing of the study {study}"]
    return [
        f"  reaches, of the study {study} (folders and files of {configs.CONFIG}):",
        *(f"    {folder}: {', '.join(names)}" for folder, names in folders.items()),
    ]


def reach(params: Params, parts: Sequence[str]) -> set[Path] | None:
    """Files of ``data/config`` that hold a value, or something that depends on it.

    Each value is exchanged for another, and what jobs would then read is compared. None where no
    other value would do, as for a name.
    """
    before = dict(configs.of_parameters(params))
    place = parts
    if _changed_by_study(params, parts):
        place = ["studies", params.study.name, "parameters", *parts[1:]]
    *_, value = _nodes(params, place)
    paths: set[Path] = set()
    is_known = False
    for inner in _leaves(value):
        *_, section, leaf = _nodes(params, [*place, *inner])
        name = [*place, *inner][-1]
        kind = type(section).model_fields[name].annotation if isinstance(section, Section) else None
        for other in _others(leaf, kind):
            changed = _exchanged(params, [*place, *inner], other)
            if place[:2] == ["studies", params.study.name]:
                changed = changed.model_copy(update={"study": changed.studies[params.study.name]})
            try:
                with warnings.catch_warnings(action="ignore"):  # of values that nothing validates
                    after = dict(configs.of_parameters(changed))
            except (KeyError, ValueError, TypeError, AttributeError):  # the other value is no name
                continue
            is_known = True
            paths |= {path for path in {**before, **after} if before.get(path) != after.get(path)}
    return paths if is_known else None


def _leaves(value: Any) -> Iterator[list[str]]:
    """Paths to all values that hold no sections."""
    inner = _children(value) if isinstance(value, Section | dict) else {}
    for name, part in inner.items():
        for path in _leaves(part):
            yield [name, *path]
    if not inner:
        yield []


def _others(value: Any, kind: Any) -> Iterable[Any]:
    """Another value of the same type, if there is one."""
    if isinstance(value, bool):
        return [not value]
    words = [word for part in (kind, *typing.get_args(kind)) if typing.get_origin(part) is Literal
             for word in typing.get_args(part)]  # fmt: skip
    if words:
        return [word for word in words if word != value][:1]
    if isinstance(value, int | float):
        return [value + 1]
    if isinstance(value, list):
        return [value[:-1]] if value else []
    if isinstance(value, str):
        return [f"{value}_"]
    return [7] if value is None else []


def _exchanged(node: Any, parts: Sequence[str], value: Any) -> Any:
    """A copy with one value exchanged; nothing is validated."""
    if not parts:
        return value
    first, *others = parts
    new = _exchanged(_children(node)[first], others, value)
    if isinstance(node, Section):
        return node.model_copy(update={first: new})
    if isinstance(node, dict):
        return {**node, first: new}
    return [new if str(index) == first else item for index, item in enumerate(node)]
