"""Tables of position embeddings that are of no model of the study: made, or read from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from posenc.artifacts.files import ArtifactError, sha256_file
from posenc.metrics import sinusoid
from posenc.models.matrices import Matrix, PathMatrix, RandomMatrix, SinusoidMatrix

LEAST_ROWS = 16
FLOATS = ("F16", "BF16", "F32", "F64")
"""Types of tensors that are read, as .safetensors names them."""


def read_matrix(section: Matrix, field: str) -> tuple[np.ndarray, dict[str, str]]:
    """A matrix of params.yaml, float64 [positions, d_model], and the checksum of its file.

    Parameters
    ----------
    section
        What it is.
    field
        Name of the section, for errors.

    Raises
    ------
    ArtifactError
        If a file is not there, is another one, or holds no such matrix.
    """
    if isinstance(section, SinusoidMatrix):
        return sinusoid.sinusoidal(section.rows, section.d_model), {}
    if isinstance(section, RandomMatrix):
        generator = np.random.default_rng(section.seed)
        return generator.normal(0, section.deviation, (section.rows, section.d_model)), {}
    path = Path(section.path)
    if not path.is_file():
        raise ArtifactError(f"{field}.path: {path} does not exist or is no file")
    digest = sha256_file(path)
    if section.sha256 != digest:
        raise ArtifactError(
            f"{field}.sha256: {path} has the checksum {digest}, not {section.sha256}: it is "
            f"another file, or was altered"
        )
    read = _read_npy if path.suffix == ".npy" else _read_safetensors
    try:
        table = read(section, field)  # [stored rows, d_model]
    except (ValueError, EOFError, OSError) as error:
        raise ArtifactError(f"{field}.path: {path} cannot be read: {error}") from error
    if table.ndim != 2:
        raise ArtifactError(f"{field}: the shape {table.shape} of {path} is not [rows, d_model]")
    name = f"{field}: {path} from first_row {section.first_row} on"
    return checked(table[section.first_row :], name), {"file": digest}


def _read_npy(section: PathMatrix, field: str) -> np.ndarray:
    """The array of a .npy file, of whatever dimensions."""
    if section.tensor is not None:
        raise ArtifactError(f"{field}.tensor: a .npy file names no tensors; leave it out")
    table = np.load(section.path, allow_pickle=False)
    if table.dtype.kind != "f":
        raise ArtifactError(f"{field}: {section.path} has entries of type {table.dtype}, not float")
    return table


@contextmanager
def opened(path: Path, field: str, framework: str = "np") -> Iterator[Any]:
    """A .safetensors file.

    Raises
    ------
    ArtifactError
        If it is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework) as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{field}.path: {path} cannot be read: {error}") from error


def _read_safetensors(section: PathMatrix, field: str) -> np.ndarray:
    """The tensor that is named, or the only one with two dimensions."""
    path = Path(section.path)
    with opened(path, field) as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        flat = sorted(name for name, shape in shapes.items() if len(shape) == 2)
        name = section.tensor
        if name is None and len(flat) != 1:
            listed = ", ".join(flat[:8]) + (", ..." if len(flat) > 8 else "")
            raise ArtifactError(
                f"{field}.tensor: {path} has {len(flat)} tensors of two dimensions"
                + (f"; name one of {listed}" if flat else "")
            )
        name = flat[0] if name is None else name
        if name not in shapes:
            raise ArtifactError(
                f"{field}.tensor: {path} has no tensor {name!r}; it has "
                + ", ".join(sorted(shapes)[:8])
            )
        kind = file.get_slice(name).get_dtype()
        if kind not in FLOATS:
            raise ArtifactError(
                f"{field}: {name} of {path} has entries of type {kind}, not one of "
                + ", ".join(FLOATS)
            )
        if kind != "BF16":
            return file.get_tensor(name)
    # NumPy has no bfloat16. Only here is the large library needed, and imported.
    with opened(path, field, "pt") as file:
        return file.get_tensor(name).float().numpy()


def checked(table: np.ndarray, name: str) -> np.ndarray:
    """The table as float64 [positions, d_model].

    Raises
    ------
    ArtifactError
        If there are too few rows, an entry is not finite, or a row is zero.
    """
    if len(table) < LEAST_ROWS:
        raise ArtifactError(f"{name}: {len(table)} rows; at least {LEAST_ROWS} are needed")
    table = table.astype(np.float64)  # [positions, d_model]
    if not np.isfinite(table).all():
        raise ArtifactError(f"{name}: an entry is not finite")
    zero = np.flatnonzero(~table.any(axis=1))
    if len(zero):
        raise ArtifactError(
            f"{name}: row {zero[0]} is zero, as rows for padding are; first_row passes over those "
            f"at the start"
        )
    if not np.ptp(table, axis=0).any():
        raise ArtifactError(f"{name}: all rows are the same")
    return table
