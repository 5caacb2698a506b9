"""An older ``params.yaml`` as the one of today: plain YAML, and a file for each study.

Older files had anchors, all conditions and all studies. All values of the old file stay;
its comments do not, so it is kept beside the new one.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from ruamel.yaml import YAML, YAMLError

from posenc.artifacts.files import JsonObject, check_writable, replace_text
from posenc.config.yaml_file import YamlError, YamlFile, found, read
from posenc.study import writing
from posenc.study.layers import BUILT_IN, SAID
from posenc.study.new import HEAD
from posenc.study.params import Params, ParamsError, load, validate
from posenc.study.study_files import STUDIES
from posenc.study.switch import StudyError

BEFORE = ".before"
"""Added to the names of the old file and the old folder: ``params.before.yaml``."""


def migrate(path: Path) -> list[str]:
    """Rewrite an older ``params.yaml``.

    Parameters
    ----------
    path
        ``params.yaml``.

    Returns
    -------
    list of str
        What was done, in lines.

    Raises
    ------
    StudyError
        If there is nothing to do, or something that exists is in the way.
    ParamsError
        If the old file is wrong, or the new one would not mean the same; nothing is written then.
    """
    text, root, raw = _of_before(path)
    if not isinstance(raw, dict) or "studies" not in raw:
        raise StudyError(f"{path} has no studies: it is as files are today")
    check_writable(path)
    folder = path.parent / STUDIES
    kept, aside = path.with_stem(path.stem + BEFORE), folder.with_name(folder.name + BEFORE)
    for place in (kept, aside, *([] if folder.is_dir() else [folder])):
        if os.path.lexists(place):
            raise StudyError(f"{place} is there already: move it away, and run this again")
    active, studies = raw.get("study"), raw["studies"]
    if isinstance(active, dict) and isinstance(studies, dict):  # an alias of the study itself
        raw["study"] = next((key for key, entry in studies.items() if entry == active), active)

    def placed(location: tuple) -> tuple[str, Any]:
        _, line, depth = found(root, location)
        return f"{path}:{line}", (path, location[:depth])

    before = validate(raw, str(path), placed)
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        draft = Path(name) / path.name
        (draft.parent / STUDIES).mkdir()
        for study, part in raw["studies"].items():
            writing.file_of(draft, study).write_text(f"{HEAD}{_dumped(part)}", encoding="utf-8")
        draft.write_text(_dumped(_own(raw, before)), encoding="utf-8")
        then, now = (params.model_dump(warnings=False) for params in (before, load(draft)))
        if problem := next(_differences(then, now), None):
            raise ParamsError(f"{path}: {problem} would not mean the same: nothing is written")
        shutil.copy2(path, kept)
        had_studies = folder.is_dir()
        if had_studies:
            folder.rename(aside)
        (draft.parent / STUDIES).rename(folder)
        # Last, and in one step: until then, the old file is the one that is read.
        replace_text(path, text, draft.read_text(encoding="utf-8"))
    said = [
        f"{path}: {len(read(path).splitlines())} lines, without anchors; before, it had "
        f"{len(text.splitlines())}",
        f"{folder}/: {len(raw['studies'])} studies, a file each",
        f"{kept}: the file of before, with its comments",
    ]
    return [*said, f"{aside}/: the studies that were there"] if had_studies else said


def _of_before(path: Path) -> tuple[str, Any, Any]:
    """The text, the nodes and the content of an older file, which may have anchors."""
    try:
        text, reader = read(path), YAML(typ="safe")
        return text, reader.compose(text), reader.load(text)
    except YamlError as error:
        raise ParamsError(str(error)) from None
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{mark.line + 1}:" if mark else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ParamsError(f"{path}:{line} not valid YAML: {what}") from None


def _own(raw: JsonObject, before: Params) -> JsonObject:
    """What an old file says that the package does not."""
    own = {name: part for name, part in raw.items() if name != "studies"}
    built_in = YamlFile(BUILT_IN).value
    for section in ("conditions", "masks", "sweeps"):
        entries = {
            name: {key: part for key, part in entry.items() if key not in SAID}
            for name, entry in built_in[section].items()
        }
        kind: Any = Params.model_fields[section].annotation
        known = TypeAdapter(kind).validate_python(entries)
        now = getattr(before, section)
        own[section] = {
            # With every key where it differs, so that none of the package's values stays in it.
            name: now[name].model_dump() if name in known else part
            for name, part in raw.get(section, {}).items()
            if known.get(name) != now[name]
        }
    beside = {name: entry["shown_as"] for name, entry in built_in["conditions"].items()}
    shown = {**built_in["labels"], **beside}
    figures = own.get("figures", {})
    if labels := figures.get("style", {}).get("labels"):
        differ = {name: label for name, label in labels.items() if shown.get(name) != label}
        own["figures"] = {**figures, "style": {**figures["style"], "labels": differ}}
    return {name: part for name, part in own.items() if part not in ({}, None)}


def _differences(then: Any, now: Any, at: str = "") -> Iterator[str]:
    """Old values that are different now; what the package adds does not count."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key, part in then.items():
            if key not in now:
                yield f"{at}{key}"
            else:
                yield from _differences(part, now[key], f"{at}{key}.")
    elif then != now:
        yield at.rstrip(".")


def _dumped(value: Any) -> str:
    """As DVC writes it, so that ``dvc exp run -S`` changes one line."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.representer.ignore_aliases = lambda *_: True
    stream = io.StringIO()
    yaml.dump(value, stream)
    return stream.getvalue()
