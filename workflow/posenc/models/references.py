"""Where a folder's weights are: one file, several with an index, or elsewhere, by reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from posenc.artifacts.contents import PLACE, Contents
from posenc.artifacts.files import ArtifactError, sha256_file
from posenc.artifacts.precision import NARROW
from posenc.models.json_files import read_mapping

if TYPE_CHECKING:
    import torch

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
"""The one file, and what says which of several files holds which tensor."""
REFERENCE = "posenc_reference"
"""Key of the metadata of a file without tensors that says where they are."""
LARGE = 2**30
"""Bytes from which on weights are neither copied into ``data/`` nor taken to float32 at once."""


def weight_files(folder: Path) -> tuple[str, ...]:
    """Names of the files that hold a folder's weights: one, or those of the index.

    Raises
    ------
    ArtifactError
        If there are none, or the index names one that is not there.
    """
    if (folder / WEIGHTS).is_file():
        return (WEIGHTS,)
    if not (folder / INDEX).is_file():
        others = sorted(path.name for path in folder.glob("*.bin"))
        pickled = f"; {others[0]} is a pickle, which is not opened" if others else ""
        raise ArtifactError(
            f"{folder} has no {WEIGHTS} and no {INDEX}: only safetensors weights, or one GGUF file "
            f"of a package or a folder, are read{pickled}"
        )
    of_tensor = read_mapping(folder / INDEX).get("weight_map")
    named = [*of_tensor.values()] if isinstance(of_tensor, dict) else [None]
    if not all(isinstance(name, str) for name in named):
        raise ArtifactError(
            f"{folder / INDEX}: weight_map does not give a file for each tensor; download it again"
        )
    names = sorted({str(name) for name in named})
    missing = [name for name in names if not (folder / name).is_file()]
    if missing or not names or any(Path(name).name != name for name in names):
        what = f"names {missing[0]}, which is not there" if missing else "names no files beside it"
        raise ArtifactError(f"{folder / INDEX} {what}: get the folder again")
    return tuple(names)


class Reference(TypedDict):
    """What a weights file without tensors says."""

    folder: str
    """Where the weights are."""
    files: dict[str, tuple[int, str]]
    """By name: bytes, and SHA-256."""


def refer(place: Path, path: Path) -> None:
    """Write a weights file that says where a folder's weights are, with their checksums."""
    from safetensors.numpy import save_file

    said: Reference = {
        "folder": str(place.resolve()),
        "files": {
            name: ((place / name).stat().st_size, sha256_file(place / name))
            for name in weight_files(place)
        },
    }
    save_file({}, path, metadata={REFERENCE: json.dumps(said, sort_keys=True)})


def weight_paths(folder: Path) -> list[Path]:
    """The files that hold a folder's weights, wherever they are.

    Raises
    ------
    ArtifactError
        If there are none, or the folder refers to weights that are not there.
    """
    names = weight_files(folder)
    said = _reference(folder / WEIGHTS) if names == (WEIGHTS,) else None
    if said is None:
        return [folder / name for name in names]
    paths = [Path(said["folder"], name) for name in said["files"]]
    contents = Contents(PLACE if PLACE.parent.is_dir() else None)
    for path in paths:
        # Read again only where the file system says that they may have changed.
        if contents.digest(path) != said["files"][path.name][1]:
            raise ArtifactError(
                f"{folder} refers to the weights {path}, which are not there as they were fetched: "
                f"bring them back, or delete {folder} and fetch them again"
            )
    return paths


def _reference(path: Path) -> Reference | None:
    """What a weights file without tensors refers to; None for one with tensors."""
    if path.stat().st_size > 2**16:
        return None
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            said = (file.metadata() or {}).get(REFERENCE)
    except SafetensorError:  # whoever reads its tensors says so
        return None
    return None if said is None else json.loads(said)


def type_of(folder: Path) -> torch.dtype:
    """The type that a folder's weights are kept in; float32 unless all have one of fewer bits."""
    import torch
    from safetensors import safe_open

    types = set()
    for path in weight_paths(folder):
        with safe_open(path, "pt") as file:
            types |= {file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118
    kind = NARROW.get(types.pop()) if len(types) == 1 else None
    return torch.float32 if kind is None else getattr(torch, kind)


def bytes_of(folder: Path) -> int:
    """Bytes of the files that hold a folder's weights."""
    return sum(path.stat().st_size for path in weight_paths(folder))
