"""What position embeddings are, and what can be read off them alone (B1, B3, C1, C4)."""

from __future__ import annotations

import dataclasses

import numpy as np

from posenc.artifacts.command import run
from posenc.measurements.of_tables import Subject, of_tables
from posenc.measurements.position_embeddings.declaration import (
    MEASUREMENT,
    SHUFFLES,
    PositionEmbeddings,
)
from posenc.measurements.position_embeddings.result import (
    Errors,
    Geometry,
    Identities,
    LastRows,
    Maps,
    NoWaves,
    OverRepeats,
    PositionTable,
    PrincipalComponents,
    Regression,
    Shape,
    SpectraMap,
    Spectrum,
    TableMap,
    ToeplitzShare,
    Wavelengths,
    Waves,
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


def measure(parameters: PositionEmbeddings, subject: Subject) -> PositionTable:
    """A table's geometry, and what is read off it."""
    used = subject.positions[: parameters.rows]  # [rows, d_model]
    generator = np.random.default_rng(np.random.SeedSequence([parameters.seed, 1]))
    control = regression.random_like(used, generator)  # [rows, d_model]
    return PositionTable(
        **dict(geometry_of(used)),
        shape=Shape(
            rows=len(used),
            available=len(subject.positions),
            d_model=used.shape[1],
            deviation=float(used.std()),
        ),
        regression=regressions(used, parameters),
        geometry_control=geometry_of(control).model_copy(update={"spectrum": None}),
        components=components(used, parameters),
        last_rows=LastRows(**dataclasses.asdict(last_rows(subject.positions))),
        identities=identities(used) if subject.kind == "sinusoid" else None,
        maps=maps(used),
    )


def regressions(table: np.ndarray, parameters: PositionEmbeddings) -> Regression:
    """Errors of both regressions, and those of random tables of the same shape and deviation."""
    errors = regression.repeated_errors(
        table,
        pairs=parameters.pairs,
        folds=parameters.folds,
        repeats=parameters.repeats,
        seed=parameters.seed,
    )
    own, control = (
        {kind: OverRepeats(**mean_and_sd(values)) for kind, values in errors[name].items()}
        for name in ("table", "control")
    )
    return Regression(
        units={"absolute": "positions", "relative": "%", "relative_unit_deviation": "%"},
        repeats=parameters.repeats,
        pairs=regression.pairs_of(len(table), parameters.pairs),
        **own,
        control=Errors(**control),
    )


def geometry_of(table: np.ndarray) -> Geometry:
    """Shares of variance by offset and by component, and the spectrum."""
    shares = geometry.pca_shares(table)  # [min(rows, d_model)]
    spectrum = geometry.spectrum(table)
    cumulative = np.cumsum(shares)  # [min(rows, d_model)]
    return Geometry(
        toeplitz_share=ToeplitzShare(
            gram=_toeplitz_share(geometry.gram(table)),
            cosine=_toeplitz_share(geometry.cosine_map(table)),
        ),
        pca=PrincipalComponents(
            shares=shares[:COMPONENTS].tolist(),
            first_4=float(cumulative[min(4, len(cumulative)) - 1]),
            first_12=float(cumulative[min(12, len(cumulative)) - 1]),
        ),
        median_frequency=spectrum.median_frequency(),
        spectrum=Spectrum(
            unit="cycles per token",
            frequencies=spectrum.frequencies.tolist(),
            mean_amplitude=spectrum.amplitudes.mean(axis=1).tolist(),
        ),
    )


def _toeplitz_share(products: np.ndarray) -> float | None:
    """None where rows are orthogonal: products do not vary with the offset."""
    try:
        return geometry.toeplitz_share(products)
    except ValueError:
        return None


def identities(table: np.ndarray) -> Identities:
    """How far sinusoids are from what they should be."""
    errors = sinusoid.identities(table)
    return Identities(
        shifts=errors.shifts,
        shift_residual=errors.shift_residual,
        squared_norm_residual=errors.squared_norm_residual,
        gram_toeplitz_residual=errors.gram_toeplitz_residual,
        wavelengths=Wavelengths(unit="tokens", shortest=errors.shortest, longest=errors.longest),
    )


def maps(table: np.ndarray) -> Maps:
    """What the figures show: evenly spaced rows and columns of the table, cosines and spectra."""
    rows, d_model = table.shape
    row_stride, column_stride = -(-rows // CELLS), -(-d_model // CELLS)
    spectrum = geometry.spectrum(table)
    edges, amplitude = spectrum.by_band(BANDS)  # [bands + 1], [bands, d_model]
    order = np.argsort(spectrum.peaks, kind="stable")  # [d_model]
    width = 1 / rows
    return Maps(
        row_stride=row_stride,
        column_stride=column_stride,
        table=TableMap(
            unit="standard deviations of the entries",
            values=_rounded(table[::row_stride, ::column_stride] / table.std(), 4),
        ),
        cosine=_rounded(geometry.cosine_map(table)[::row_stride, ::row_stride], 4),
        spectra=SpectraMap(
            # The edges lie between frequencies, which are 1 / rows apart.
            edges=((edges - 0.5) * width).tolist(),
            amplitude=_rounded(amplitude[:, order[::column_stride]], 4),
            of="root mean square in the band, by the column's largest; columns by frequency",
        ),
    )


def _rounded(values: np.ndarray, digits: int) -> list[list[float]]:
    """Rounded to as many significant digits of the largest value."""
    decimals = digits - 1 - int(np.floor(np.log10(np.abs(values).max() or 1.0)))
    # Adding 0 turns -0 into 0.
    return (np.round(values, decimals) + 0.0).tolist()


def components(table: np.ndarray, parameters: PositionEmbeddings) -> Waves | NoWaves:
    """Components of the rows, and waves of position; not run of a table that is too small."""
    try:
        waves = table_waves(
            table, components=parameters.components, harmonics=parameters.harmonics,
            folds=parameters.folds, shuffles=SHUFFLES, seed=parameters.seed,
        )  # fmt: skip
    except ValueError as error:
        return NoWaves(status="not run", reason=str(error))
    return Waves(
        status="measured",
        reason=None,
        correlation=waves.correlation,
        correlation_shuffled=spread(waves.shuffled),
        principal=waves.principal.tolist(),
        independent=waves.independent.mean(axis=0).tolist(),
        independent_largest=spread(waves.independent.max(axis=1)),
        explained_shuffled=spread(waves.explained_shuffled),
        converged=waves.converged,
    )


main = of_tables(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
