"""Waves of position in a table, and untrained rows at its end: planted, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from posenc.metrics.sinusoid import sinusoidal
from posenc.metrics.table_waves import explained_share, last_rows, table_waves

OPTIONS = {"components": 3, "harmonics": 2, "folds": 5, "shuffles": 10, "seed": 0}


def noise(rows=120, d_model=16, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, d_model))


def waves(rows, harmonics):
    """Cosines and sines of half periods over the rows."""
    angle = np.pi * np.arange(rows)[:, None] * np.arange(1, harmonics + 1) / rows
    return np.hstack([np.cos(angle), np.sin(angle)])


def planted(rows=120, d_model=16):
    """Two slow waves in a few dimensions, with noise everywhere."""
    table = 0.1 * noise(rows, d_model)
    table[:, :4] += 5 * waves(rows, 2) @ noise(4, 4, 1)
    return table


def test_planted_waves_are_found_and_noise_is_not():
    with_waves, none = (table_waves(table, **OPTIONS) for table in (planted(), noise()))
    assert with_waves.correlation > 0.99 and with_waves.principal[0] > 0.99
    assert with_waves.independent.max() > 0.9 and (np.diff(with_waves.independent) <= 0).all()
    assert len(with_waves.shuffled) == len(with_waves.explained_shuffled) == 10
    assert np.abs(with_waves.shuffled).max() < 0.4 and with_waves.explained_shuffled.max() < 0.2
    assert abs(none.correlation) < 0.4 and none.principal.max() < 0.2
    # The order of the rows is all that differs: two shuffles are not alike.
    assert len(set(with_waves.shuffled)) == 10
    assert with_waves.converged is none.converged is True
    sinusoids = table_waves(sinusoidal(120, 16), **OPTIONS)
    assert sinusoids.correlation > 0.95


def test_the_correlation_is_that_of_positions_left_out():
    """By the generalised eigenproblem, fold after fold, in sums over all positions."""
    table, rows = planted(40, 8) + noise(40, 8, 2), 40
    centred = table - table.mean(axis=0)
    scores = centred @ np.linalg.svd(centred, full_matrices=False)[2][:3].T
    basis = waves(rows, 2)
    fold = np.random.default_rng(0).permutation(np.arange(rows) % 5)
    u, v = np.empty(rows), np.empty(rows)
    for test in (fold == number for number in range(5)):
        x, y = (side[~test] - side[~test].mean(axis=0) for side in (scores, basis))
        xx, yy, xy = x.T @ x, y.T @ y, x.T @ y
        values, vectors = linalg.eigh(xy @ np.linalg.solve(yy, xy.T), xx)
        a = vectors[:, -1]
        b = np.linalg.solve(yy, xy.T @ a)
        a, b = a / np.std(x @ a), b / np.std(y @ b)
        sign = np.sign(a[np.abs(a).argmax()])
        u[test] = (scores[test] - scores[~test].mean(axis=0)) @ a * sign
        v[test] = (basis[test] - basis[~test].mean(axis=0)) @ b * sign
        assert values[-1] <= 1
    correlation = table_waves(table, **OPTIONS).correlation
    # Signs of a pair of directions are free, fold by fold, but the same for both.
    assert correlation == pytest.approx(
        np.sum(u * v) / np.sqrt(np.sum(u**2) * np.sum(v**2)), abs=0.02
    )


def test_shares_are_those_of_least_squares():
    values, basis = noise(30, 4), waves(30, 3)
    design = np.hstack([np.ones((30, 1)), basis])
    expected = []
    for column in values.T:
        rest = column - design @ np.linalg.lstsq(design, column, rcond=None)[0]
        expected.append(1 - rest.var() / column.var())
    np.testing.assert_allclose(explained_share(values, basis), expected)
    whole = explained_share(basis @ noise(6, 300), basis)
    np.testing.assert_allclose(whole, 1)
    assert whole.max() == 1, "where rounding passes it, too"


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="not"):
        table_waves(noise(8, 16), **{**OPTIONS, "components": 4})


@pytest.mark.parametrize("untouched", [0, 1, 3])
def test_rows_at_the_end_that_are_like_no_other_are_counted(untouched):
    trained = 3 + 0.1 * noise(60, 400)
    drawn = 0.02 * np.random.default_rng(5).normal(size=(untouched, 400))
    last = last_rows(np.vstack([trained, drawn]))
    assert last.untouched == untouched
    assert last.neighbours > 0.99
    if untouched:
        assert last.norm == pytest.approx(0.02 / 3, rel=0.1) and abs(last.cosine) < last.chance
    else:
        assert last.norm == pytest.approx(1, abs=0.02) and last.cosine > 0.99


def test_the_level_of_chance_is_that_of_random_directions():
    rng, fixed = np.random.default_rng(0), np.eye(24)[0]
    drawn = rng.normal(size=(20_000, 24))
    cosines = np.abs(drawn @ fixed) / np.linalg.norm(drawn, axis=1)
    last = last_rows(rng.normal(size=(20, 24)), probability=0.9)
    assert np.quantile(cosines, 0.9) == pytest.approx(last.chance, abs=0.01)
    assert last_rows(rng.normal(size=(20, 24)), probability=1 - 1e-15).untouched == 19


def test_norms_and_cosines_by_hand():
    table = np.array([[3.0, 4], [3, 4], [0, 2], [0, -1]])
    last = last_rows(table, probability=0.5)
    assert last.norm == pytest.approx(1 / 3.5) and last.cosine == pytest.approx(-1)
    assert last.neighbours == pytest.approx(0.8) and last.untouched == 0
    with pytest.raises(ValueError, match="row 1 is zero"):
        last_rows([[1.0, 0], [0, 0], [1, 1]])
