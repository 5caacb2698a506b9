"""What position embeddings are, and what can be read off them alone (B1, B3, C1, C4)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from posenc.artifacts.command import run
from posenc.measurements.of_tables import Subject, of_tables
from posenc.measurements.position_embeddings.declaration import (
    MEASUREMENT,
    SHUFFLES,
    PositionEmbeddings,
)
from posenc.metrics import geometry, sinusoid
from posenc.metrics import position_regression as regression
from posenc.metrics.moments import mean_and_sd
from posenc.metrics.null_tables import spread
from posenc.metrics.table_waves import last_rows, table_waves

CELLS = 128
"""Most rows, and most columns, of a map that is kept for the figures."""
BANDS = 64
"""Most bands of frequencies of the map of spectra."""
COMPONENTS = 32
"""Leading principal components whose shares are kept."""


def measure(parameters: PositionEmbeddings, subject: Subject) -> dict[str, Any]:
    """A table's geometry, and what is read off it."""
    used = subject.positions[: parameters.rows]  # [rows, d_model]
    return {
        "shape": {
            "rows": len(used),
            "available": len(subject.positions),
            "d_model": used.shape[1],
            "deviation": float(used.std()),
        },
        "regression": regressions(used, parameters),
        **measure_geometry(used, parameters),
        "components": components(used, parameters),
        "last_rows": dataclasses.asdict(last_rows(subject.positions)),
        "identities": sinusoid.identities(used) if subject.kind == "sinusoid" else None,
        "maps": maps(used),
    }


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
    spectrum = geometry.spectrum(table)
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
        "median_frequency": spectrum.median_frequency(),
        "spectrum": {
            "unit": "cycles per token",
            "frequencies": spectrum.frequencies.tolist(),
            "mean_amplitude": spectrum.amplitudes.mean(axis=1).tolist(),
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
    spectrum = geometry.spectrum(table)
    edges, amplitude = spectrum.by_band(BANDS)  # [bands + 1], [bands, d_model]
    order = np.argsort(spectrum.peaks, kind="stable")  # [d_model]
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
    # Adding 0 turns -0 into 0.
    return (np.round(values, decimals) + 0.0).tolist()


def components(table: np.ndarray, parameters: PositionEmbeddings) -> dict[str, Any]:
    """Components of the rows, and waves of position; not run of a table that is too small."""
    try:
        waves = table_waves(
            table, components=parameters.components, harmonics=parameters.harmonics,
            folds=parameters.folds, shuffles=SHUFFLES, seed=parameters.seed,
        )  # fmt: skip
    except ValueError as error:
        return {"status": "not run", "reason": str(error)}
    return {
        "status": "measured",
        "reason": None,
        "correlation": waves.correlation,
        "correlation_shuffled": spread(waves.shuffled),
        "principal": waves.principal.tolist(),
        "independent": waves.independent.mean(axis=0).tolist(),
        "independent_largest": spread(waves.independent.max(axis=1)),
        "explained_shuffled": spread(waves.explained_shuffled),
        "converged": waves.converged,
    }


main = of_tables(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
