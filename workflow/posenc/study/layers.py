"""``params.yaml`` over the files of studies, and these over what every project has.

Three layers say what there is: the catalogue of conditions and masks that comes with the package,
a file for each study in ``studies/``, and ``params.yaml``. An entry that a higher layer names again
is changed there, key by key, so that ``params.yaml`` holds what differs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc import conditions
from posenc.artifacts.files import JsonObject
from posenc.config.yaml_file import YamlFile
from posenc.study.explain import suggestion
from posenc.study.merging import merged
from posenc.study.study_files import STUDIES, LayerError, study_files, why_no_name

BUILT_IN = Path(conditions.__file__).with_name("catalogue.yaml")
DEPTHS = {
    "datasets": 1, "models": 1, "matrices": 1, "conditions": 1, "masks": 1, "sweeps": 1,
    "experiments": 2, "studies": 1,
}  # fmt: skip
"""Sections of named entries, and how many keys name an entry below each."""
SAID = {
    "shown_as": ("datasets", "models", "matrices", "conditions"),
    "about": ("conditions", "masks"),
}
"""Texts that an entry can have, by section: a label, and a sentence. No measurement reads them."""
DEFINE = "define"
"""The key of a study's file below which it has sections of its own entries."""
LIKE, GRID = "like", "grid"
LONGEST = 100
"""Of a chain of entries, each of which is like the next: the study that is longest has 4."""

Key = tuple[str, ...]
"""A section and the names of an entry, as in ``("experiments", "downstream", "sample")``."""


@dataclass(frozen=True)
class _Part:
    """What one file says of an entry."""

    file: YamlFile
    at: tuple
    value: Any

    @property
    def keys(self) -> JsonObject:
        """What it says; empty if it is not a mapping, which validation reports."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def is_of_study(self) -> bool:
        """Whether a study defines it."""
        return self.at[:1] == (DEFINE,)

    def line(self, *keys: str) -> str:
        return f"{_shown(self.file)}:{self.file.place((*self.at, *keys))[0]}"


class Layers:
    """All layers of a project, read.

    Attributes
    ----------
    path
        ``params.yaml``.
    parts
        By entry, what each file says of it, the lowest layer first.
    about
        Sentences about entries.
    value
        What all layers say together, as one mapping of sections.

    Raises
    ------
    LayerError
        If the layers do not fit together.
    YamlError
        If a file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.own, self.built_in = YamlFile(path), YamlFile(BUILT_IN)
        self.parts: dict[Key, list[_Part]] = {}
        self.about: dict[Key, str] = {}
        self._labels: dict[str, tuple[str, Key]] = {}
        self._members: dict[Key, tuple[Key, dict[str, object]]] = {}
        self.value = self._assembled() if isinstance(self.own.value, dict) else self.own.value

    def _assembled(self) -> JsonObject:
        own, built_in = self.own.value, self.built_in
        self._take(built_in, built_in.value)
        for key, _ in self._held(own):  # they come before those of studies
            self.parts.setdefault(key, [])
        for path in study_files(self.path):
            self._take_study(path)
        self._take(self.own, own)
        whole = {name: part for name, part in own.items() if not self._is_shelf(name, part)}
        for section, depth in DEPTHS.items():
            if not self._is_shelf(section, own.get(section, {})):
                continue  # validation reports what is not a mapping
            shelf: JsonObject = {}
            # List all first: a model that a grid makes may be changed above the grid.
            for key in list(self._entries(section)):
                node = shelf
                for name in key[1:depth]:
                    node = node.setdefault(name, {})
                node[key[-1]] = self._whole(key)
            if shelf or section in own:
                whole[section] = shelf
        if "studies" not in whole:
            raise LayerError(f"{self.path}: there is no study: each is a file {STUDIES}/NAME.yaml")
        self._add_labels(whole, built_in.value["labels"])
        return whole

    def place(self, location: tuple) -> tuple[str, Any]:
        """Where a key is set, or the innermost mapping that should have it.

        Parameters
        ----------
        location
            Keys and indices of :attr:`value`, from the outside.

        Returns
        -------
        tuple
            File and line, and an identity that all that is said there shares.
        """
        is_label = location[:3] == ("figures", "style", "labels") and len(location) > 3
        if is_label and self.own.place(location)[1] < len(location):
            built_in = ("labels", *location[3:])
            line, depth = self.built_in.place(built_in)
            if (labelled := self._labels.get(location[3])) is not None:
                location = (*labelled[1], "shown_as")
            elif depth == len(built_in):
                return f"{_shown(self.built_in)}:{line}", (BUILT_IN, built_in)
        key, rest = self._split(location)
        parts = list(self._said(key)) if key else []
        if key in self._members and rest[:1] == ("source",):
            parts, rest = self._of_grid(key, parts, rest)
        if not parts:
            # A section, which several files may have, or a kind of experiment.
            roots = {part.at[: -len(name)]: part.file for name, said in self.parts.items()
                     if name[: len(location)] == location for part in said}  # fmt: skip
            parts, rest = [_Part(self.own, (), None)], location
            parts += [_Part(file, root, None) for root, file in roots.items()]
        places = [(part, *part.file.place((*part.at, *rest))) for part in parts]
        # Of those that go deepest into the entry, the first is the nearest.
        part, line, depth = max(places, key=lambda place: place[2] - len(place[0].at))
        # The values that a grid lists share what is said of their key.
        end = len(part.at) + 2 if rest[:1] == (GRID,) else depth
        return f"{_shown(part.file)}:{line}", (part.file.path, (*part.at, *rest)[: min(end, depth)])

    def _of_grid(self, key: Key, parts: list[_Part], rest: tuple) -> tuple[list[_Part], tuple]:
        """Where the grid of a model lists a value, if the model itself says nothing else."""
        grid, chosen = self._members[key]
        own = self.parts.get(key, []) if key != grid else []
        is_own = any(part.file.place((*part.at, *rest))[1] > len(part.at) + 1 for part in own)
        if len(rest) < 2 or rest[1] not in chosen or is_own:
            return parts, rest
        part = next(part for part in self._said(grid) if GRID in part.keys)
        index = part.keys[GRID][rest[1]].index(chosen[rest[1]])
        return [part], (GRID, rest[1], index)

    @staticmethod
    def _is_shelf(section: str, part: Any) -> bool:
        if section not in DEPTHS or not isinstance(part, dict):
            return False
        return DEPTHS[section] == 1 or all(isinstance(entry, dict) for entry in part.values())

    def _split(self, location: tuple) -> tuple[Key, tuple]:
        """The entry that a location leads to or into, and what is left of it."""
        depth = DEPTHS.get(location[0], 0) if location else 0
        if not depth or len(location) <= depth:
            return (), location
        return tuple(map(str, location[: depth + 1])), tuple(location[depth + 1 :])

    def _take(self, file: YamlFile, value: Mapping[str, Any], inside: tuple = ()) -> None:
        """Note what a file says of entries."""
        for key, part in self._held(value):
            layers = self.parts.setdefault(key, [])
            said = _Part(file, (*inside, *key), part)
            for other in layers:
                if said.is_of_study or other.is_of_study:
                    raise LayerError(_twice(key, said, other))
            _check_texts(said, key)
            layers.append(said)

    def _held(self, value: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
        """The entries of sections."""
        for section, shelf in value.items():
            if not self._is_shelf(section, shelf):
                continue
            for name, part in shelf.items():
                if DEPTHS[section] == 1:
                    yield (section, name), part
                else:
                    yield from (((section, name, size), entry) for size, entry in part.items())

    def _take_study(self, path: Path) -> None:
        file = YamlFile(path)
        if not isinstance(file.value, dict):
            raise LayerError(f"{path}: must be a mapping: the keys of a study")
        study = {name: part for name, part in file.value.items() if name != DEFINE}
        said = _Part(file, (), study)
        _check_texts(said, ("studies", path.stem))
        self.parts[("studies", path.stem)] = [said]
        defined = file.value.get(DEFINE, {})
        if not isinstance(defined, dict):
            line, _ = file.place((DEFINE,))
            raise LayerError(f"{path}:{line}: {DEFINE}: must be a mapping of sections")
        for section, part in defined.items():
            if section == "studies" or not self._is_shelf(section, part):
                line, _ = file.place((DEFINE, section))
                known = ", ".join(name for name in DEPTHS if name != "studies")
                raise LayerError(
                    f"{path}:{line}: {DEFINE}.{section}: a study defines entries by name, of "
                    f"{known}"
                )
        self._take(file, defined, (DEFINE,))

    def _entries(self, section: str) -> Iterator[Key]:
        """All entries of a section; those of a grid stand where the grid does."""
        seen: set[Key] = set()
        for key in [key for key in self.parts if key[0] == section]:
            grid = self._grid(key) if section == "models" else None
            for entry in self._expanded(key, grid) if grid is not None else [key]:
                if entry not in seen:
                    seen.add(entry)
                    yield entry

    def _grid(self, key: Key) -> Any:
        definition = self._definition(key)
        return definition.get(GRID) if isinstance(definition, dict) else None

    def _expanded(self, key: Key, grid: Any) -> Iterator[Key]:
        """The models of a grid: each value is added to the name, except the seed 0."""
        at = self._grid_line(key)
        if not isinstance(grid, dict) or not all(
            isinstance(values, list) and values for values in grid.values()
        ):
            raise LayerError(
                f"{at}: {'.'.join(key)}.{GRID}: keys of source, each with a list of its values"
            )
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            words = [str(value) for name, value in chosen.items() if (name, value) != ("seed", 0)]
            member = (*key[:-1], "_".join([key[-1], *words]))
            self._check_member(member, key, at)
            self._members[member] = (key, chosen)
            yield member

    def _check_member(self, member: Key, grid: Key, at: str) -> None:
        """Refuse a model of a grid whose name is none, or is something else's."""
        makes = f"{at}: {'.'.join(grid)}.{GRID} makes {member[-1]!r}"
        if why_no_name(member[-1]):
            raise LayerError(
                f"{makes}, which cannot be a name: define it by itself, `like` another"
            )
        other, _ = self._members.get(member, (grid, {}))
        place = None if other == grid else self._grid_line(other)
        for part in self.parts.get(member, []) if member != grid else []:
            # What says no more than what differs changes the model.
            is_elsewhere = part.is_of_study and not at.startswith(f"{part.file.path}:")
            if is_elsewhere or LIKE in part.keys or GRID in part.keys:
                place = part.line()
        if place is not None:
            raise LayerError(f"{makes}, which {place} defines, too: give one of them another name")

    def _grid_line(self, key: Key) -> str:
        return next(part.line(GRID) for part in self._said(key) if GRID in part.keys)

    def _said(self, key: Key, seen: tuple[Key, ...] = ()) -> Iterator[_Part]:
        """What is said of an entry, the nearest first: itself, its grid, what it is like."""
        parts = self.parts.get(key, [])
        yield from reversed(parts)
        further = [self._members[key][0]] if key in self._members else []
        further += [(*key[:-1], part.keys[LIKE]) for part in parts if LIKE in part.keys]
        for other in further:
            if other not in (*seen, key):
                yield from self._said(other, (*seen, key))

    def _definition(self, key: Key, seen: tuple[Key, ...] = ()) -> Any:
        """An entry merged from its layers and what it is like, before any grid is expanded."""
        whole: Any = {}
        for part in self.parts[key]:
            if not isinstance(part.value, dict):
                return part.value
            value = {
                name: setting for name, setting in part.keys.items() if not _is_text(key, name)
            }
            if (name := value.pop(LIKE, None)) is not None:
                other = (*key[:-1], name)
                if other in (*seen, key):
                    raise LayerError(f"{part.line(LIKE)}: {'.'.join(key)}.like leads to itself")
                if other not in self.parts:
                    raise LayerError(self._unlike(part, key, name))
                if len(seen) > LONGEST:
                    raise LayerError(
                        f"{part.line(LIKE)}: {'.'.join(key)}.like: more than {LONGEST} entries are "
                        f"like one another in a chain"
                    )
                like = self._definition(other, (*seen, key))
                whole = merged(whole, like if isinstance(like, dict) else {}, key[0])
            whole = merged(whole, value, key[0])
        return whole

    def _unlike(self, part: _Part, key: Key, name: str) -> str:
        known = [other[-1] for other in self.parts if other[:-1] == key[:-1] and other != key]
        what = f"{part.line(LIKE)}: {'.'.join(key)}.like names {name!r}"
        for (*_, grid), parts in self.parts.items():
            if name.startswith(f"{grid}_") and any(GRID in part.keys for part in parts):
                return f"{what}, which is of a grid: name the grid, {grid!r}"
        return f"{what}, which is not defined in {key[0]}{suggestion(name, known)}"

    def _whole(self, key: Key) -> Any:
        """An entry, for validation; its label and its sentence are noted."""
        for part in self.parts.get(key, []):
            for name, said in part.keys.items():
                if _is_text(key, name) and name == "shown_as":
                    self._labels[key[-1]] = (said, key)
                elif _is_text(key, name):
                    self.about[key] = said
        whole: Any = {}
        if key in self._members:
            grid, chosen = self._members[key]
            whole = merged(self._definition(grid), {"source": chosen}, key[0])
        if key in self.parts:
            whole = merged(whole, self._definition(key), key[0])
        if key[0] == "models" and isinstance(whole, dict):
            whole.pop(GRID, None)
        return whole

    def _add_labels(self, whole: JsonObject, built_in: Mapping[str, str]) -> None:
        node, parts = whole, []
        for name in ("figures", "style", "labels"):
            node = node.get(name, {})
            if not isinstance(node, dict):
                return  # its validation says what is wrong
            parts.append(node)
        figures, style, own = parts
        beside = {name: label for name, (label, _) in self._labels.items()}
        labels = {**built_in, **beside, **own}
        whole["figures"] = {**figures, "style": {**style, "labels": labels}}


def _shown(file: YamlFile) -> Path:
    """A file as messages name it."""
    return file.path.relative_to(Path(__file__).parents[3]) if file.path == BUILT_IN else file.path


def _twice(key: Key, said: _Part, other: _Part) -> str:
    """That a study defines what another file has."""
    mine, theirs = (said, other) if said.is_of_study else (other, said)
    what = f"{mine.line()}: {'.'.join(key)} is"
    if theirs.file.path == BUILT_IN:
        return (
            f"{what} built in ({theirs.line()}) for all studies: give it another name, as in "
            f"my_{key[-1]}: {{like: {key[-1]}, ...}}"
        )
    both = ", or define it in params.yaml for both" if theirs.is_of_study else ""
    said_twice = f"{what} defined in {theirs.line()} already"
    inside = theirs.file.value.get("studies")
    if isinstance(inside, dict) and inside.keys() & {p.stem for p in study_files(theirs.file.path)}:
        # Anchors may be gone: DVC writes them out.
        return f"{said_twice}: `posenc migrate` rewrites a params.yaml that holds the studies too"
    return f"{said_twice}: give one of them another name{both}"


def _check_texts(part: _Part, key: Key) -> None:
    """Refuse anything but a text where one is read here."""
    for name, value in part.keys.items():
        if (name == LIKE or _is_text(key, name)) and not isinstance(value, str):
            what = "the name of an entry" if name == LIKE else "a text"
            raise LayerError(
                f"{part.line(name)}: {'.'.join(key)}.{name}: is {value!r}: should be {what}"
            )


def _is_text(key: Key, name: str) -> bool:
    """Whether a key of an entry is one of the texts that no measurement reads."""
    return key[0] in SAID.get(name, ())
