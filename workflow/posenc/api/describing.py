"""A model for ``params.yaml``: found, verified, and written as an entry of ``models``."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from posenc.api.loading import from_place, place_of
from posenc.api.model import Model
from posenc.architectures.needs import Need
from posenc.architectures.table import KINDS
from posenc.architectures.verification import lines_of
from posenc.artifacts.files import sha256_file
from posenc.models.files import CONFIG, GGUF, ModelError, tokenizer_files
from posenc.models.memory import memory_of
from posenc.models.references import INDEX, WEIGHTS, weight_files

COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Entry:
    """An entry of ``models``.

    Attributes
    ----------
    key
        Its name.
    head
        All of its lines in ``params.yaml`` but the last, indented below ``models:``.
    max_tokens
        Tokens at which texts are cut.
    position
        How positions come in: by a table or a rotation.
    without_losses
        Why it has no losses that are the library's; None if it has.
    """

    key: str
    head: str
    max_tokens: int
    position: str
    without_losses: str | None

    @property
    def lines(self) -> str:
        """As they stand in ``params.yaml``."""
        return f"{self.head}    max_tokens: {self.max_tokens}\n"


def entry_of(name: str, revision: str, taken: Collection[str]) -> Entry:
    """Load a model from a folder or the hub, and write its entry.

    Parameters
    ----------
    name, revision
        As for :func:`posenc.load`; the hub's commit is looked up.
    taken
        Keys that ``models`` has.

    Raises
    ------
    ModelError
        If it is not run here as the library runs it, or positions cannot be taken from it.
    """
    place = place_of(name, revision)
    model = from_place(name, place, is_kept=True)
    if reason := model.architecture.lacks(Need.REMOVABLE):
        raise ModelError(f"{name}: a study needs a model without its positions; {reason}")
    key = re.sub(r"[^a-z0-9]+", "_", Path(name).name.lower()).strip("_") or "model"
    key = key if key[0].isalpha() else f"model_{key}"
    while key in taken:
        key += "_own"
    lines = [f"  # {line}" for line in said(model)]
    lines += [f"  {key}:", f"    family: {model.reading.family}"]
    if model.reading.family not in KINDS:
        lines += [f"    kind: {model.reading.kind}", f"    position: {model.reading.position}"]
    lines += ["    source:", *(f"      {line}" for line in _source(name, place))]
    return Entry(
        key, "\n".join(lines) + "\n", model.reading.max_tokens, model.reading.positions,
        model.architecture.lacks(Need.LOSS),
    )  # fmt: skip


def _source(name: str, place: Path) -> list[str]:
    """Lines that say where a model comes from, pinned by checksums or a commit."""
    folder = Path(name)
    if not folder.is_dir():
        commit = place.name if COMMIT.fullmatch(place.name) else ""
        if not commit:
            raise ModelError(f"{name}: the hub's folder {place} does not say of which commit it is")
        return ["kind: hub", f"id: {name}", f"revision: {commit}"]
    quoted = "'" + str(folder).replace("'", "''") + "'"
    lines = ["kind: path", f"path: {quoted}"]
    if place.suffix == GGUF:
        return [*lines, f"sha256: {sha256_file(place)}"]
    names = weight_files(place)
    whole = names == (WEIGHTS,)
    lines.append(f"sha256: {sha256_file(place / (WEIGHTS if whole else INDEX))}")
    read = (CONFIG, *(() if whole else names), *tokenizer_files(place))
    return [*lines, "files:", *(f"  {file}: {sha256_file(place / file)}" for file in read)]


def said(model: Model) -> list[str]:
    """What was found out about a model, in a few lines."""
    assert model.verification is not None
    room = memory_of(model.network.config, type(model.network), {})
    return [*lines_of(model.name, model.verification.as_json()), str(room)]


def looked_at(name: str, revision: str) -> list[str]:
    """What is found out about a folder or a model of the hub, in a few lines."""
    return said(from_place(name, place_of(name, revision), is_kept=True))
