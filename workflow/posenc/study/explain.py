"""What is wrong with ``params.yaml``, one line per mistake."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

Place = Callable[[tuple], tuple[str, Any]]
"""File and line of a key, and an identity that all that is said there shares."""


CHOSEN = (("measurements",), ("figures",))
"""Sections of parameters that a study lists names of under the same key."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """What an unknown word probably meant, or all known words."""
    known = [str(name) for name in known]  # of an older file, it may be a number
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"


def explain(
    error: ValidationError,
    raw: Any,
    schema: Callable[[], JsonSchemaValue],
    source: str,
    place: Place | None = None,
) -> list[str]:
    """Render a validation error: the key, its value, and what would be right.

    Parameters
    ----------
    error
        What pydantic found.
    raw
        What was validated.
    schema
        Makes the JSON schema, for the names of keys.
    source
        Name of the file.
    place
        Gives files and lines. Without it there are none, and a mistake in what several entries
        are like is shown for each of them.

    Returns
    -------
    list of str
        One line a mistake.
    """
    lines: list[str] = []
    seen: set[tuple] = set()
    for problem, path in _mistakes(error.errors(), raw):
        # The active study is one of studies, where its mistakes are shown.
        if path[:1] == ("study",) and any(key[:1] == ("studies",) for key in seen):
            continue
        text = _text(problem, schema)
        where = f"{source}: "
        if place is not None:
            # A contradiction between sections belongs to the whole; its text begins with a key.
            spoken = tuple(text.split(maxsplit=1)[0].rstrip(":").split("."))
            at = path or (spoken if spoken[0] in raw else ())
            said, identity, own = written(at, place)
            if path and spoken[0] in _keys_at(path, raw):  # one of a section, by a key of it
                said = written((*path, spoken[0]), place)[0]
            where, path = (f"{said}: " if at else where), own if path else path
            if not path and own != at:
                text = text.replace(".".join(at), ".".join(own), 1)
            if (identity, path[-1:], text) in seen:
                continue
            seen.add((identity, path[-1:], text))
        seen.add(path)
        key = ".".join(part if len(part) <= 80 else f"{part[:77]}..." for part in map(str, path))
        lines.append(f"{where}{key + ': ' if key else ''}{text}")
    return lines


def _keys_at(path: tuple, raw: Any) -> Iterable[Any]:
    """Keys of what stands at a path; none where it is no mapping."""
    for part in path:
        raw = raw.get(part, {}) if isinstance(raw, Mapping) else {}
    return raw if isinstance(raw, Mapping) else ()


def explain_texts(
    problems: Iterable[tuple[tuple, str]], source: str, place: Place | None
) -> list[str]:
    """What is wrong with texts, by their keys: one line a mistake, as :func:`explain` has them."""
    lines = []
    for location, text in problems:
        said, _, key = (source, None, location) if place is None else written(location, place)
        lines.append(f"{said}: {'.'.join(map(str, key))}: {text}")
    return lines


def written(location: tuple, place: Place) -> tuple[str, Any, tuple]:
    """File and line of a key, the identity of what is said there, and the key as it stands there.

    A label of all names may be one that stands beside what it labels.
    """
    said, identity = place(location)
    at = identity[1]
    if location[:3] == ("figures", "style", "labels") and at[-1:] == ("shown_as",):
        return said, identity, at[at[0] == "define" :]
    return said, identity, location


def _mistakes(problems: list[Any], raw: Any) -> Iterator[tuple[Any, tuple]]:
    """Problems and their paths; where a value fits no alternative of a union, only one of them."""
    known = _meant(problems, raw)
    for problem in problems:
        # A mapping is not meant to be one of the words that may stand in its place.
        is_word = any(_is_tag(part) and part.startswith("literal") for part in problem["loc"])
        if is_word and isinstance(problem["input"], Mapping):
            continue
        path = _path(problem["loc"], raw)
        if path not in known:
            known.add(path)
            yield problem, path


def _meant(problems: list[Any], raw: Any) -> set[tuple]:
    """Missing keys that are there under a misspelt name, which is reported already."""
    paths: dict[str, set[tuple]] = {"missing": set(), "extra_forbidden": set()}
    for problem in problems:
        if problem["type"] in paths:
            paths[problem["type"]].add(_path(problem["loc"], raw))
    misspelt = set()
    for *outer, name in paths["extra_forbidden"]:
        missing = [path[-1] for path in paths["missing"] if path[:-1] == tuple(outer)]
        misspelt |= {
            (*outer, meant) for meant in difflib.get_close_matches(str(name), missing, n=1)
        }
    return misspelt


def _text(problem: Any, schema: Callable[[], JsonSchemaValue]) -> str:
    kind, location, value = problem["type"], problem["loc"], problem["input"]
    if kind == "extra_forbidden":
        name = str(location[-1])
        return f"unknown key {shown(name)}{suggestion(name, _fields_at(location, schema()))}"
    if kind == "missing":
        return "is missing; it is required"
    if kind == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        of_study = location in CHOSEN
        chooses = f"; a study chooses under studies.NAME.{location[0]}" if of_study else ""
        return f"is {shown(value)}: should be a mapping{chooses}"
    if kind in ("too_short", "string_too_short"):
        least, what = problem["ctx"]["min_length"], "item" if kind == "too_short" else "character"
        return f"is {shown(value)}: should have at least {least} {what}{'s' * (least > 1)}"
    if kind.startswith("union_tag"):
        tag = problem["ctx"]["discriminator"].strip("'")
        if tag not in value:
            return f"{tag} is missing; it is required"
        return f"{tag} is {shown(value[tag])}: should be one of {problem['ctx']['expected_tags']}"
    return f"is {shown(value)}: {problem['msg'].replace('Input should', 'should')}"


def shown(value: Any) -> str:
    """A value on one line; of a long one, the beginning."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _path(location: tuple, raw: Any) -> tuple:
    """The keys as the user wrote them: tags of unions, which are not keys, are left out."""
    if location and location[-1] == "[key]":
        location = location[:-1]
    parts: list[Any] = []
    node = raw
    location = tuple(part for part in location if not _is_tag(part))
    for index, part in enumerate(location):
        if isinstance(node, Mapping):
            tags = (node.get("kind"), node.get("method"))
            # `source: {kind: url, url: ...}`: a tag may also be the name of a key.
            if index < len(location) - 1 and (part not in node or part in tags):
                continue
            child = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            child = node[part]
        else:
            continue
        parts.append(part)
        node = child
    return tuple(parts)


def _is_tag(part: Any) -> bool:
    """Whether a part of a location names an alternative of a union, such as ``literal['zero']``."""
    return isinstance(part, str) and part.endswith("]") and "[" in part[1:]


def _fields_at(location: tuple, schema: JsonSchemaValue) -> list[str]:
    """Names that are allowed in the mapping that holds the last part of an error's location."""
    definitions = schema["$defs"]

    def resolve(node: Any) -> Any:
        while isinstance(node, dict) and "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[1]]
        return node

    node = resolve(schema)
    for part in location[:-1]:
        if part in node.get("properties", {}):
            node = resolve(node["properties"][part])
        elif "discriminator" in node and part in node["discriminator"]["mapping"]:
            node = resolve({"$ref": node["discriminator"]["mapping"][part]})
        elif isinstance(node.get("additionalProperties"), dict):
            node = resolve(node["additionalProperties"])
        elif "patternProperties" in node:  # a mapping of names
            (inner,) = node["patternProperties"].values()
            node = resolve(inner)
        elif "anyOf" in node:
            node = resolve(node["anyOf"][0])
        else:
            return []
    return list(node.get("properties", {}))
