"""What position embeddings are, and what can be read off them alone (B1, B3, C1, C4)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import Field, model_validator

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, sha256_file, write_sealed
from posenc.config.base import Count, Draws, Folds, Length, Section, Seed
from posenc.measurements.declaration import MODEL, WEIGHTS, Measurement
from posenc.measurements.frame import Config, Output, StudyJob, provenance
from posenc.metrics import geometry, sinusoid
from posenc.metrics import position_regression as regression
from posenc.metrics.moments import mean_and_sd
from posenc.models.files import model_digests
from posenc.models.matrices import Matrix, PathMatrix, RandomMatrix, SinusoidMatrix
from posenc.models.section import Reading
from posenc.models.weights import Weights

LEAST_ROWS = 16
CELLS = 128
"""Most rows, and most columns, of a map that is kept for the figures."""
BANDS = 64
"""Most bands of frequencies of the map of spectra."""
COMPONENTS = 32
"""Leading principal components whose shares are kept."""
FLOATS = ("F16", "BF16", "F32", "F64")
"""Types of tensors that are read, as .safetensors names them."""


class PositionEmbeddings(Section):
    """What position embeddings are: their geometry, and what can be read off them (B1, B3, C1)."""

    rows: Annotated[Length, Field(ge=16)]
    """How many positions, from the first one on, are measured."""
    folds: Folds
    """Of the cross-validation, over shuffled positions or pairs."""
    repeats: Annotated[Count, Field(ge=2)]
    """Cross-validations with other seeds; results are their mean and standard deviation."""
    pairs: Annotated[Draws, Field(ge=100)]
    """Random pairs of positions; the regression tells which of the two comes later."""
    seed: Seed


MEASUREMENT = Measurement(
    "position_embeddings", PositionEmbeddings, of=MODEL, reads=(WEIGHTS, "matrices"),
    catalogue=("B1", "B3", "C1", "C4"), uses=("scikit-learn",),
)  # fmt: skip


class Job(StudyJob[PositionEmbeddings]):
    """What the measurement of one table depends on, besides its model or file."""

    reading: Reading | None
    matrix: Matrix | None

    @model_validator(mode="after")
    def _check_subject(self) -> Job:
        if (self.reading is None) == (self.matrix is None):
            raise ValueError("give either reading, of a model, or matrix")
        return self


def main(
    subject: Annotated[str, typer.Option(help="name of the model or of the matrix")],
    config: Config,
    output: Output,
    weights: Annotated[Path | None, typer.Option(help="folder of the model")] = None,
) -> None:
    """Measure the position embeddings of a model, or a matrix in their place."""
    job = read_section(config, Job)
    if job.matrix is None:
        if weights is None:
            raise ArtifactError(f"{subject} is a model: give --weights, the folder of its weights")
        inputs = model_digests(weights)
        table = Weights(weights, job.reading.family).embeddings()[1]  # [positions, d_model]
        table = checked(table, f"the position embeddings of {subject}")
    else:
        table, inputs = matrix(job.matrix, f"matrices.{subject}")  # [positions, d_model]
    is_sinusoid = isinstance(job.matrix, SinusoidMatrix)
    used = table[: job.parameters.rows]  # [rows, d_model]
    write_sealed(
        output,
        {
            "schema": MEASUREMENT.schema,
            "measurement": MEASUREMENT.name,
            "catalogue": list(MEASUREMENT.catalogue),
            "run": {"model" if job.matrix is None else "matrix": subject},
            "subject": subject,
            "kind": "model" if job.matrix is None else job.matrix.kind,
            "status": "measured",
            "reason": None,
            "shape": {
                "rows": len(used),
                "available": len(table),
                "d_model": used.shape[1],
                "deviation": float(used.std()),
            },
            "regression": regressions(used, job.parameters),
            **measure_geometry(used, job.parameters),
            "identities": sinusoid.identities(used) if is_sinusoid else None,
            "maps": maps(used),
            "provenance": {
                **provenance(MEASUREMENT, job.parameters, inputs),
                "matrix": job.matrix and job.matrix.model_dump(exclude={"path"}),
            },
        },
    )


def matrix(section: Matrix, field: str) -> tuple[np.ndarray, dict[str, str]]:
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


def _read_safetensors(section: PathMatrix, field: str) -> np.ndarray:
    """The tensor that is named, or the only one with two dimensions."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(section.path, "np") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
            flat = sorted(name for name, shape in shapes.items() if len(shape) == 2)
            name = section.tensor
            if name is None and len(flat) != 1:
                listed = ", ".join(flat[:8]) + (", ..." if len(flat) > 8 else "")
                raise ArtifactError(
                    f"{field}.tensor: {section.path} has {len(flat)} tensors of two dimensions"
                    + (f"; name one of {listed}" if flat else "")
                )
            name = flat[0] if name is None else name
            if name not in shapes:
                raise ArtifactError(
                    f"{field}.tensor: {section.path} has no tensor {name!r}; it has "
                    + ", ".join(sorted(shapes)[:8])
                )
            kind = file.get_slice(name).get_dtype()
            if kind not in FLOATS:
                raise ArtifactError(
                    f"{field}: {name} of {section.path} has entries of type {kind}, not one of "
                    + ", ".join(FLOATS)
                )
            if kind != "BF16":
                return file.get_tensor(name)
        # NumPy has no bfloat16. Only here is the large library needed, and imported.
        with safe_open(section.path, "pt") as file:
            return file.get_tensor(name).float().numpy()
    except SafetensorError as error:
        raise ValueError(str(error)) from error


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


def regressions(table: np.ndarray, parameters: PositionEmbeddings) -> dict[str, Any]:
    """Errors of both regressions, and those of random tables of the same shape and deviation."""
    errors = regression.repeated_errors(
        table,
        pairs=parameters.pairs,
        folds=parameters.folds,
        repeats=parameters.repeats,
        seed=parameters.seed,
    )
    results = {
        name: {kind: mean_and_sd(values) for kind, values in kinds.items()}
        for name, kinds in errors.items()
    }
    return {
        "units": {"absolute": "positions", "relative": "%", "relative_unit_deviation": "%"},
        "repeats": parameters.repeats,
        "pairs": regression.pairs_of(len(table), parameters.pairs),
        **results.pop("table"),
        **results,
    }


def measure_geometry(table: np.ndarray, parameters: PositionEmbeddings) -> dict[str, Any]:
    """Shares of variance by offset and by component, and the spectrum; with a random table's."""
    generator = np.random.default_rng(np.random.SeedSequence([parameters.seed, 1]))
    control = _of_table(regression.random_like(table, generator))
    return {**_of_table(table), "geometry_control": {**control, "spectrum": None}}


def _of_table(table: np.ndarray) -> dict[str, Any]:
    shares = geometry.pca_shares(table)  # [min(rows, d_model)]
    found = geometry.spectrum(table)
    cumulative = np.cumsum(shares)  # [min(rows, d_model)]
    return {
        "toeplitz_share": {
            "gram": _toeplitz_share(geometry.gram(table)),
            "cosine": _toeplitz_share(geometry.cosine_map(table)),
        },
        "pca": {
            "shares": shares[:COMPONENTS].tolist(),
            "first_4": float(cumulative[min(4, len(cumulative)) - 1]),
            "first_12": float(cumulative[min(12, len(cumulative)) - 1]),
        },
        "median_frequency": found.median_frequency(),
        "spectrum": {
            "unit": "cycles per token",
            "frequencies": found.frequencies.tolist(),
            "mean_amplitude": found.amplitudes.mean(axis=1).tolist(),
        },
    }


def _toeplitz_share(products: np.ndarray) -> float | None:
    """None where rows are orthogonal: products do not vary with the offset."""
    try:
        return geometry.toeplitz_share(products)
    except ValueError:
        return None


def maps(table: np.ndarray) -> dict[str, Any]:
    """What the figures show: evenly spaced rows and columns of the table, cosines and spectra."""
    rows, d_model = table.shape
    row_stride, column_stride = -(-rows // CELLS), -(-d_model // CELLS)
    found = geometry.spectrum(table)
    edges, amplitude = found.by_band(BANDS)  # [bands + 1], [bands, d_model]
    order = np.argsort(found.peaks, kind="stable")  # [d_model]
    width = 1 / rows
    return {
        "row_stride": row_stride,
        "column_stride": column_stride,
        "table": {
            "unit": "standard deviations of the entries",
            "values": _rounded(table[::row_stride, ::column_stride] / table.std(), 4),
        },
        "cosine": _rounded(geometry.cosine_map(table)[::row_stride, ::row_stride], 4),
        "spectra": {
            # The edges lie between frequencies, which are 1 / rows apart.
            "edges": ((edges - 0.5) * width).tolist(),
            "amplitude": _rounded(amplitude[:, order[::column_stride]], 4),
            "of": "root mean square in the band, by the column's largest; columns by frequency",
        },
    }


def _rounded(values: np.ndarray, digits: int) -> list[list[float]]:
    """Rounded to as many significant digits of the largest value."""
    decimals = digits - 1 - int(np.floor(np.log10(np.abs(values).max() or 1.0)))
    # Adding 0 makes one of both zeros.
    return (np.round(values, decimals) + 0.0).tolist()


if __name__ == "__main__":
    run(main)
