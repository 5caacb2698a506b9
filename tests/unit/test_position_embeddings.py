"""Sinusoids, signals and what a table reveals, against identities and planted cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, special, stats
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from posenc.metrics import geometry, sinusoid
from posenc.metrics import position_regression as regression
from posenc.metrics.moments import mean_and_sd


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn(rows: int, d_model: int, seed: int) -> np.ndarray:
    """A random table with a mean and columns of different scales."""
    rng = generator(seed)
    return rng.normal(0.3, 1, (rows, d_model)) * rng.uniform(0.1, 3, d_model)


SIZES = {
    "rows": st.integers(3, 40),
    "d_model": st.integers(1, 20),
    "seed": st.integers(0, 2**32 - 1),
}
QUICK = settings(deadline=None, max_examples=50)
EVEN = st.integers(1, 20).map(lambda half: 2 * half)


def test_sinusoids_are_those_of_the_paper_s_formula():
    table = sinusoid.sinusoidal(50, 8)
    for p in range(50):
        for i in range(4):
            angle = p / 10000 ** (2 * i / 8)
            assert table[p, 2 * i] == pytest.approx(np.sin(angle), abs=1e-12)
            assert table[p, 2 * i + 1] == pytest.approx(np.cos(angle), abs=1e-12)


@QUICK
@given(d_model=EVEN)
def test_each_pair_of_dimensions_repeats_after_its_wavelength(d_model):
    lengths = sinusoid.wavelengths(d_model)
    assert lengths[0] == pytest.approx(2 * np.pi) and lengths[-1] < 10000 * 2 * np.pi
    ratios = lengths[1:] / lengths[:-1]
    np.testing.assert_allclose(ratios, 10000 ** (2 / d_model))
    for i, length in enumerate(lengths):
        moved = sinusoid.shift_matrix(1, d_model)[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
        turned = linalg.fractional_matrix_power(moved, length)  # a whole turn
        np.testing.assert_allclose(turned, np.eye(2), atol=1e-6)


@QUICK
@given(d_model=EVEN, k=st.integers(-60, 60), j=st.integers(-60, 60))
def test_a_shift_is_a_rotation_that_moves_every_position(d_model, k, j):
    table = sinusoid.sinusoidal(130, d_model)
    matrix = sinusoid.shift_matrix(k, d_model)
    begin, end = max(0, -k), 130 - max(0, k)
    moved = table[begin:end] @ matrix.T
    np.testing.assert_allclose(moved, table[begin + k : end + k], atol=1e-11)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(d_model), atol=1e-12)
    both = matrix @ sinusoid.shift_matrix(j, d_model)
    np.testing.assert_allclose(both, sinusoid.shift_matrix(k + j, d_model), atol=1e-11)


def test_no_matrix_shifts_a_table_that_is_not_made_of_sinusoids():
    table = generator().normal(size=(400, 32))
    best = np.linalg.lstsq(table[:-1], table[1:], rcond=None)[0]
    assert np.abs(table[:-1] @ best - table[1:]).max() > 1


@QUICK
@given(rows=st.integers(3, 60), d_model=EVEN)
def test_products_of_sinusoids_depend_on_the_offset_alone(rows, d_model):
    table = sinusoid.sinusoidal(rows, d_model)
    products = geometry.gram(table)
    np.testing.assert_allclose(np.diag(products), d_model / 2, atol=1e-12)
    offsets = np.subtract.outer(np.arange(rows), np.arange(rows))
    expected = np.cos(offsets[..., None] * 2 * np.pi / sinusoid.wavelengths(d_model)).sum(axis=-1)
    np.testing.assert_allclose(products, expected, atol=1e-10)
    np.testing.assert_allclose(products, linalg.toeplitz(products[0]), atol=1e-10)
    assert geometry.toeplitz_residual(products) < 1e-10
    assert geometry.toeplitz_share(products) == pytest.approx(1, abs=1e-9)


@QUICK
@given(rows=st.integers(3, 30), seed=st.integers(0, 999))
def test_toeplitz_share_is_the_r2_of_a_mean_for_each_offset(rows, seed):
    matrix = generator(seed).normal(size=(rows, rows))
    groups = {}
    for i in range(rows):
        for j in range(rows):
            if i != j:
                groups.setdefault(j - i, []).append(matrix[i, j])
    entries = np.concatenate(list(groups.values()))
    within = sum(len(group) * np.var(group) for group in groups.values())
    share = geometry.toeplitz_share(matrix)
    assert share == pytest.approx(1 - within / (len(entries) * entries.var()), abs=1e-10)
    assert geometry.toeplitz_share(5 - 3 * matrix) == pytest.approx(share, abs=1e-9)
    # The diagonal is ignored.
    assert geometry.toeplitz_share(matrix + 1e3 * np.eye(rows)) == pytest.approx(share, abs=1e-6)
    means = geometry.offset_means(matrix)
    assert means[rows - 1] == pytest.approx(np.trace(matrix) / rows)
    toeplitz = linalg.toeplitz(matrix[:, 0], matrix[0])
    assert geometry.toeplitz_share(toeplitz) == pytest.approx(1, abs=1e-12)


def test_toeplitz_share_of_random_rows_is_two_by_rows():
    rows = 200
    shares = [
        geometry.toeplitz_share(geometry.gram(generator(seed).normal(size=(rows, 64))))
        for seed in range(20)
    ]
    assert np.mean(shares) == pytest.approx(2 / rows, rel=0.1)


@pytest.mark.parametrize(
    "matrix", [np.eye(8), np.ones((8, 8)), np.zeros((4, 4)), np.ones((3, 4)), np.eye(2)]
)
def test_toeplitz_share_says_where_there_is_none(matrix):
    with pytest.raises(ValueError, match=r"constant off its diagonal|not \[rows|too few"):
        geometry.toeplitz_share(matrix)


@QUICK
@given(**SIZES)
def test_cosines_are_scikit_learn_s(rows, d_model, seed):
    table = drawn(rows, d_model, seed)
    cosines = geometry.cosine_map(table)
    np.testing.assert_allclose(cosines, cosine_similarity(table), atol=1e-12)
    assert np.abs(cosines).max() <= 1
    table[1] = 0
    with pytest.raises(ValueError, match="row 1 is zero"):
        geometry.cosine_map(table)


@QUICK
@given(**SIZES)
def test_spectrum_keeps_the_energy_of_each_column(rows, d_model, seed):
    """Parseval, and the transform written out."""
    table = drawn(rows, d_model, seed)
    spectrum = geometry.spectrum(table)
    np.testing.assert_allclose(spectrum.power.sum(axis=0), np.square(table).sum(axis=0), rtol=1e-9)
    k, p = np.arange(rows // 2 + 1), np.arange(rows)
    waves = np.exp(-2j * np.pi * np.outer(k, p) / rows)
    np.testing.assert_allclose(spectrum.amplitudes, np.abs(waves @ table), atol=1e-9)
    np.testing.assert_allclose(spectrum.frequencies, k / rows)
    assert spectrum.power.shape == (rows // 2 + 1, d_model)


@pytest.mark.parametrize("cycles", [1, 7, 32])
def test_a_pure_sine_lands_in_one_bin(cycles):
    rows = 64
    wave = np.cos(2 * np.pi * cycles * np.arange(rows) / rows)[:, None]
    spectrum = geometry.spectrum(wave + 5)
    others = np.delete(spectrum.amplitudes[:, 0], [0, cycles])
    assert np.abs(others).max() < 1e-10
    assert spectrum.peaks.tolist() == [cycles]
    assert spectrum.amplitudes[0, 0] == pytest.approx(5 * rows)
    assert spectrum.median_frequency() == cycles / rows


def test_median_frequency_of_white_noise_is_in_the_middle():
    spectrum = geometry.spectrum(generator().normal(size=(512, 400)))
    assert spectrum.median_frequency() == pytest.approx(0.25, abs=0.004)
    with pytest.raises(ValueError, match="no column changes"):
        geometry.spectrum(np.ones((8, 2))).median_frequency()


@QUICK
@given(**SIZES, bands=st.integers(1, 12))
def test_amplitudes_by_band_are_relative_to_the_columns_largest(rows, d_model, seed, bands):
    table = drawn(rows, d_model, seed)
    edges, amplitudes = geometry.spectrum(table).by_band(bands)
    power = np.square(np.abs(np.fft.rfft(table, axis=0)))  # [frequencies, d_model]
    power[1 : (rows + 1) // 2] *= 2  # all but 0 and the highest of an even length
    parts = itertools.pairwise(edges)
    expected = np.sqrt([power[low:high].mean(axis=0) for low, high in parts])
    np.testing.assert_allclose(amplitudes, expected / expected.max(axis=0), atol=1e-9)


@QUICK
@given(frequencies=st.integers(2, 600), bands=st.integers(1, 80))
def test_bands_cover_each_frequency_but_0_once(frequencies, bands):
    edges = geometry.logarithmic_edges(frequencies, bands)
    assert edges[0] == 1 and edges[-1] == frequencies
    assert (np.diff(edges) > 0).all() and len(edges) - 1 <= bands


@QUICK
@given(rows=st.integers(3, 30), d_model=st.integers(1, 12), seed=st.integers(0, 999))
def test_component_shares_are_scikit_learn_s(rows, d_model, seed):
    table = drawn(rows, d_model, seed)
    shares = geometry.pca_shares(table)
    np.testing.assert_allclose(shares, PCA().fit(table).explained_variance_ratio_, atol=1e-12)
    assert shares.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="all rows are the same"):
        geometry.pca_shares(np.ones((rows, d_model)))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: sinusoid.sinusoidal(4, 3), "even"),
        (lambda: sinusoid.sinusoidal(0, 4), "0 rows"),
        (lambda: sinusoid.shift_matrix(1, 5), "even"),
        (lambda: geometry.gram(np.ones(3)), "not .rows, d_model"),
        (lambda: geometry.spectrum([[1.0], [np.nan]]), "^the table must be finite$"),
        (lambda: regression.absolute_error(np.ones((3, 2)), 5, generator()), "3 rows are too few"),
        (lambda: regression.absolute_error(np.full((9, 2), np.inf), 5, generator()), "finite"),
        (lambda: regression.relative_error(np.ones((9, 2)), 8, 5, generator()), "8 pairs"),
        (lambda: regression.relative_error(np.ones(9), 99, 5, generator()), "not .rows"),
    ],
)
def test_bad_input_is_a_value_error(call, problem):
    with pytest.raises(ValueError, match=problem):
        call()


# Reading position off a table (B3).


def out_of_fold(table: np.ndarray, folds: int, rng: np.random.Generator) -> float:
    """Mean absolute error with least squares written out, by the pseudo-inverse."""
    order = rng.permutation(len(table))
    errors = []
    for held in np.array_split(np.arange(len(table)), folds):
        rest = np.setdiff1d(np.arange(len(table)), held)
        x, y = table[order[rest]], order[rest]
        weights = np.linalg.pinv(x - x.mean(axis=0)) @ (y - y.mean())
        predicted = (table[order[held]] - x.mean(axis=0)) @ weights + y.mean()
        errors += np.abs(np.rint(predicted) - order[held]).tolist()
    return float(np.mean(errors))


@pytest.mark.parametrize("d_model", [3, 60])
def test_absolute_error_is_that_of_least_squares_written_out(d_model):
    table = drawn(40, d_model, seed=2) + np.linspace(0, 3, 40)[:, None]
    error = regression.absolute_error(table, 5, generator(3))
    assert error == pytest.approx(out_of_fold(table, 5, generator(3)), abs=1e-9)


def test_a_planted_position_is_read_without_error():
    table = generator().normal(size=(100, 4))
    table[:, 1] = 2 - 0.1 * np.arange(100)
    assert regression.absolute_error(table, 5, generator(1)) == 0
    # The regression of pairs is penalised, but most pairs are far apart.
    assert regression.relative_error(table, 500, 5, generator(1)) < 0.05


def test_sinusoids_give_the_known_errors():
    """Wang and Chen (2020), table 1: 0.0 and 5.08 %; with other draws, 4.7 to 7.8 %."""
    table = sinusoid.sinusoidal(512, 768)
    assert regression.absolute_error(table, 5, generator()) == 0
    errors = [100 * regression.relative_error(table, 512, 5, generator(seed)) for seed in range(10)]
    assert 4.5 < np.mean(errors) < 7.8
    assert abs(np.mean(errors) - 5.08) < 2 * np.std(errors)


def test_random_vectors_give_the_errors_that_theory_predicts():
    """Independent normal predictions whose variance follows from least squares of smallest norm.

    With n of d > n + 1 independent columns, it is n / (d - n - 1) of the variance of positions.
    """
    rows, d_model, draws = 512, 768, 6
    tables = [generator(seed).normal(0, 0.02, (rows, d_model)) for seed in range(draws)]
    errors = [regression.absolute_error(t, 5, generator(s)) for s, t in enumerate(tables)]
    n, deviation = 0.8 * rows, rows / np.sqrt(12)
    predicted = deviation * np.sqrt(n / (d_model - n - 1))
    positions = np.arange(rows) - (rows - 1) / 2
    # E|N(0, s) - a| = s √(2 / π) exp(-a² / 2 s²) + a (2 Φ(a / s) - 1)
    ratio = positions / predicted
    expected = predicted * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2)
    expected += positions * special.erf(ratio / np.sqrt(2))
    assert np.mean(errors) == pytest.approx(expected.mean(), rel=0.08)
    errors = [
        100 * regression.relative_error(t, 512, 5, generator(s)) for s, t in enumerate(tables)
    ]
    # 40 to 43 % is known; from draw to draw the error has a deviation of about 3 %.
    assert 40 - 6 < np.mean(errors) < 43 + 6


def test_pairs_are_different_and_none_is_drawn_twice(monkeypatch):
    seen = {}

    def predict(_, joined, later, cv):
        seen.update(joined=joined, later=later)
        return ~later

    monkeypatch.setattr("sklearn.model_selection.cross_val_predict", predict)
    table = np.arange(10.0)[:, None]
    assert regression.relative_error(table, 10**6, 2, generator()) == 1
    pairs = {tuple(pair) for pair in seen["joined"].astype(int).tolist()}
    assert len(pairs) == len(seen["joined"]) == regression.pairs_of(10, 10**6) == 90
    assert all(i != j for i, j in pairs)
    assert seen["later"].tolist() == [j > i for i, j in seen["joined"].tolist()]
    assert regression.pairs_of(10, 20) == 20


def test_labels_that_nothing_tells_are_at_chance():
    """No pair shares a vector with another pair: nothing can be learned."""
    errors = []
    for seed in range(5):
        table = generator(seed).normal(size=(2000, 5))
        errors.append(regression.relative_error(table, 600, 5, generator(seed)))
    assert np.mean(errors) == pytest.approx(0.5, abs=0.06)


def test_a_random_table_has_the_shape_and_the_deviation():
    table = drawn(300, 50, 0)
    random_table = regression.random_like(table, generator(5))
    assert random_table.shape == table.shape
    assert random_table.std() == pytest.approx(table.std(), rel=0.02)
    assert stats.kstest(random_table.ravel() / table.std(), "norm").pvalue > 0.01


def test_errors_of_repeats_are_of_a_table_and_of_a_random_one():
    options = {"pairs": 100, "folds": 3, "repeats": 2, "seed": 5}
    table = sinusoid.sinusoidal(40, 12)
    errors, scaled = (regression.repeated_errors(k * table, **options) for k in (1, 10))
    assert {len(values) for kinds in errors.values() for values in kinds.values()} == {2}
    # Dividing by the standard deviation removes the scale.
    for name in ("table", "control"):
        unit = "relative_unit_deviation"
        np.testing.assert_allclose(errors[name][unit], scaled[name][unit], atol=1e-9)
    assert max(errors["table"]["relative"]) < min(errors["control"]["relative"])


def test_what_should_hold_of_sinusoids_holds_of_them_alone():
    identities = sinusoid.identities(sinusoid.sinusoidal(40, 12))
    names = ("shift_residual", "squared_norm_residual", "gram_toeplitz_residual")
    assert max(getattr(identities, name) for name in names) < 1e-11
    assert identities.shifts == [1, 2, 4, 8, 16, 32]
    assert identities.shortest == pytest.approx(2 * np.pi)
    assert identities.longest == pytest.approx(2 * np.pi * 10_000 ** (10 / 12))
    other = sinusoid.identities(generator().normal(size=(40, 12)))
    assert min(getattr(other, name) for name in names) > 0.1


def test_mean_and_sd():
    assert mean_and_sd([1, 3]) == {"mean": 2.0, "sd": pytest.approx(np.sqrt(2))}
