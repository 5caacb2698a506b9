"""``params.yaml`` and files of studies as text: one reader, and the line of each key.

DVC reads YAML 1.2 (ruamel.yaml); PyYAML and many editors still read YAML 1.1, where ``020000`` is
8192, ``1:40:00`` is 6000 and ``yes`` is true. Here it is YAML 1.2, and what the two libraries read
differently is refused. So are anchors: `dvc exp run -S` copies what they share into its users.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

MAX_DEPTH = 20
"""Of mappings and lists within each other; sections need eight, and Python's stack ends at about
two hundred."""
KINDS = ("str", "int", "float", "bool", "null")
"""What a value can be; the schema has no use for dates, sets or objects."""
_TOO_DEEP = f"is nested more than {MAX_DEPTH} deep: close a bracket, or indent less"
_DIFFERENT = "YAML 1.1 and 1.2 read this differently: put texts in quotes"
_NUMBER = re.compile(
    r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
"""YAML 1.2.2, section 10.3.2; ruamel.yaml also reads 1_000 and 0b11."""
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")
"""YAML 1.2.2, section 5.1."""
_TAG = "tag:yaml.org,2002:"
ANCHORS = (
    "anchors, aliases and merges (&, *, <<) are no longer read: write like: NAME in their place; "
    "`posenc migrate` rewrites an older params.yaml"
)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """The text cannot be read, or has two meanings; each line of the message names its place."""


class YamlFile:
    """A file that was read.

    Attributes
    ----------
    value
        Its content, as YAML 1.2.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = read(path)
        self._root, self.value = _parsed(path, self.text)

    def place(self, location: tuple) -> tuple[int, int]:
        """Where a key or an item is, or the innermost mapping that should have it.

        Parameters
        ----------
        location
            Keys and indices, from the outside.

        Returns
        -------
        tuple of int
            Its line, from 1, and how many parts of the location are there.
        """
        _, line, depth = found(self._root, location)
        return line, depth

    def changed(self, location: tuple, value: str) -> str:
        """Its text with another word as one value; every other character stays.

        Parameters
        ----------
        location
            Keys and indices, from the outside.
        value
            A word, such as a name or a checksum.

        Raises
        ------
        YamlError
            If the file has no word there.
        """
        node, line, depth = found(self._root, location)
        if depth < len(location) or not isinstance(node, ScalarNode):
            raise YamlError(f"{self.path}:{line}: has no {'.'.join(location)} that can be changed")
        marked = len(self.text) - len(self.text.removeprefix("\ufeff"))  # the parser leaves it out
        start, end = (mark.index + marked for mark in (node.start_mark, node.end_mark))
        before, old = self.text[start:end], node.value.strip()
        if old and before.count(old) == 1 and (node.style or _is_plain(value)):
            new = before.replace(old, value)
        else:  # over several lines, or to be put in quotes
            space = "" if self.text[:start].endswith((" ", "\t", "\n", "\r")) else " "
            after = before[len(before.rstrip()) :]
            new = space + (value if _is_plain(value) else json.dumps(value)) + after
        return self.text[:start] + new + self.text[end:]


def found(root: Any, location: tuple) -> tuple[Any, int, int]:
    """The innermost node on the way to a key or an item, its line, and how deep that is."""
    node, line = root, 1
    for depth, part in enumerate(location):
        child = None
        if isinstance(node, MappingNode):
            child = _child(node, part)
        elif isinstance(node, SequenceNode) and isinstance(part, int):
            child = (node.value[part],) * 2 if part < len(node.value) else None
        if child is None:
            return node, line, depth
        node, line = child[1], child[0].start_mark.line + 1
    return node, line, len(location)


def _child(node: Any, name: Any) -> tuple[Any, Any] | None:
    """A key of a mapping and its value, or those of what an older file merges into it."""
    pairs = {key.value: (key, value) for key, value in node.value if isinstance(key, ScalarNode)}
    if name in pairs or "<<" not in pairs:
        return pairs.get(name)
    merge = pairs["<<"][1]
    others = merge.value if isinstance(merge, SequenceNode) else [merge]
    return next(
        (pair for other in others
         if isinstance(other, MappingNode) and (pair := _child(other, name))), None,
    )  # fmt: skip


def _is_plain(word: str) -> bool:
    """Whether all readers take it for a text without quotes."""
    return word == yaml.safe_load(word) == YAML(typ="safe").load(word)


@functools.lru_cache(maxsize=128)  # a command reads the same files more than once
def _parsed(path: Path, text: str) -> tuple[Any, Any]:
    """The nodes and the content of a file; they are shared, so nobody may change them."""
    reader = YAML(typ="safe")
    try:
        _check_structure(path, text)
        other = yaml.compose(text, _Loader)
        root = reader.compose(text)
        if root is None:
            return None, None
        problems = list(_Comparison(reader).problems(root, other))
        if problems:
            raise YamlError("\n".join(f"{path}:{problem}" for problem in problems))
        return root, reader.constructor.construct_document(root)
    except (YAMLError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{mark.line + 1}:" if mark else ""
        said = [getattr(error, part, None) for part in ("context", "problem")]
        what = ": ".join(filter(None, said)) or str(error).splitlines()[0]
        begun = getattr(error, "context_mark", None)
        if mark and begun and begun.line < mark.line:
            what += f" (it begins in line {begun.line + 1})"
        if "tab character" in what or (mark and _begins_with_tab(text, mark.line)):
            what = "there is a tab: indent by spaces, two for each level"
        raise YamlError(f"{path}:{line} not valid YAML: {what}") from None


def read(path: Path) -> str:
    """The text of a file, with the ends of lines that it has.

    Raises
    ------
    YamlError
        If it cannot be read as text.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise YamlError(f"{path}: is a link to a file that is not there") from None
        raise YamlError(f"{path}: no such file; run from the project's root") from None
    except OSError as error:
        raise YamlError(f"{path}: {error.strerror}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise YamlError(
            f"{path}:{line}: byte {error.start} ({data[error.start]:#04x}) is not UTF-8: save the "
            f"file as UTF-8"
        ) from None
    if (character := _NO_TEXT.search(text)) is not None:
        line = len(text[: character.start() + 1].splitlines())
        raise YamlError(
            f"{path}:{line}: not valid YAML: the control character U+{ord(character[0]):04X}: take "
            f"it out"
        )
    return text


def _begins_with_tab(text: str, line: int) -> bool:
    lines = text.splitlines()
    return line < len(lines) and lines[line].lstrip(" ").startswith("\t")


def _check_structure(path: Path, text: str) -> None:
    """Refuse what would exhaust the stack of either library, and anchors; events need no stack."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if getattr(event, "anchor", None) is not None:
            raise YamlError(f"{path}:{event.start_mark.line + 1}: {ANCHORS}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise YamlError(f"{path}:{event.start_mark.line + 1}: {_TOO_DEEP}")


class _Comparison:
    """What YAML 1.1 and 1.2 make of the same text, node by node."""

    def __init__(self, reader: YAML) -> None:
        self._now, self._then = reader.constructor, yaml.SafeLoader("")

    def problems(self, node: Any, other: Any, key: str = "") -> Iterator[str]:
        """What differs or is not allowed: a line number, the key, and the way out.

        Parameters
        ----------
        node, other
            What YAML 1.2 and YAML 1.1 make of it.
        key
            Where it is.
        """
        at = _at(node, key)
        if type(node).__name__ != type(other).__name__:
            yield f"{at}{_DIFFERENT}"
        elif isinstance(node, ScalarNode):
            yield from self._of_scalar(node, other, at)
        elif node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            yield f"{at}has the tag {node.tag}: leave it out"
        elif len(node.value) != len(other.value):
            yield f"{at}{_DIFFERENT}"
        else:
            if isinstance(node, MappingNode):
                yield from self._of_keys(node, other, key)
            for (name, part), (_, part_then) in zip(_parts(node), _parts(other), strict=True):
                yield from self.problems(part, part_then, f"{key}.{name}".lstrip("."))

    def _of_keys(self, node: Any, other: Any, key: str) -> Iterator[str]:
        seen: dict[str, int] = {}
        for (name, _), (name_then, _) in zip(node.value, other.value, strict=True):
            at, tags = _at(name, key), {name.tag, name_then.tag}
            if not isinstance(name, ScalarNode) or name.value != name_then.value:
                yield f"{at}a key must be a word that every reader reads alike"
                continue
            if name.value in seen:
                first = seen[name.value]
                yield f"{at}the key {_shown(name.value)} is there twice, first in line {first}"
            elif name.value == "<<":
                yield f"{at}{ANCHORS}"
            elif tags != {f"{_TAG}str"}:
                yield f"{at}the key {name.value} is not a word to every reader: put it in quotes"
            seen[name.value] = name.start_mark.line + 1

    def _of_scalar(self, node: Any, other: Any, at: str) -> Iterator[str]:
        kind, shown = node.tag.removeprefix(_TAG), _shown(node.value)
        if node.tag == other.tag == f"{_TAG}str" and node.value == other.value:
            return
        if kind in ("int", "float") and len(node.value) > 100:
            yield f"{at}{shown} is too long for a number: put it in quotes if it is text"
        elif kind not in KINDS:
            yield f"{at}{shown} is read as {kind}: put it in quotes if it is text"
        else:
            yield from self._of_value(kind, node, other, f"{at}{shown}")

    def _of_value(self, kind: str, node: Any, other: Any, at: str) -> Iterator[str]:
        try:
            now, then = self._now.construct_object(node), self._then.construct_object(other)
        except (ValueError, KeyError, AttributeError, YAMLError, yaml.YAMLError):
            yield f"{at} cannot be read as {kind}: put it in quotes if it is text"
            return
        if kind in ("int", "float") and not _NUMBER.fullmatch(node.value):
            yield f"{at} is a number to some readers of YAML only: write {_shown(now)}"
            return
        alike = type(now) is type(then) and (now == then or now != now)
        # DVC writes 5e-05, and every command here reads the number. YAML 1.1 sees a word, which no
        # field of numbers takes.
        if not alike and not (kind == "float" and isinstance(then, str)):
            yield (
                f"{at} without quotes is {_shown(now)} in YAML 1.2 and {_shown(then)} in "
                f"YAML 1.1: write the one that you mean"
            )


def _parts(node: Any) -> list[tuple[Any, Any]]:
    """Keys, or indices, and nodes of a mapping or a list."""
    if isinstance(node, MappingNode | yaml.MappingNode):
        return [(name.value, value) for name, value in node.value]
    return list(enumerate(node.value))


def _at(node: Any, key: str) -> str:
    return f"{node.start_mark.line + 1}: {key}: " if key else f"{node.start_mark.line + 1}: "


def _shown(value: Any) -> str:
    """A value as YAML, on one line; the beginning of a long one."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
