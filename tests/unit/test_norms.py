"""What norms say about position, on planted cases; and what layer normalisation leaves of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from posenc.metrics.norms import layer_norm, norm_r2


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def text(documents: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and documents of the tokens of documents of one length."""
    positions = np.tile(np.arange(length), documents)  # [tokens]
    return positions, np.repeat(np.arange(documents), length)


def test_a_norm_that_is_the_position_explains_all_of_it():
    positions, documents = text(30, 60)
    for norms in (positions, 100 - 0.3 * positions):
        r2 = norm_r2(norms, positions, seed=0, groups=documents)
        assert r2["linear"] == pytest.approx(1, abs=1e-12)
        assert 0.99 < r2["flexible"] <= 1
    assert norm_r2(np.arange(512), np.arange(512), seed=0)["flexible"] > 0.99


def test_a_bent_norm_needs_the_flexible_regressor():
    positions = np.arange(1024)
    r2 = norm_r2(np.exp(-positions / 100), positions, seed=0)
    assert r2["flexible"] > 0.99 and r2["linear"] < 0.6


def test_an_independent_norm_explains_nothing():
    positions, documents = text(100, 50)
    norms = generator(1).normal(10, 1, len(positions))  # [tokens]
    r2 = norm_r2(norms, positions, seed=0, groups=documents)
    assert abs(r2["linear"]) < 0.005
    assert -0.05 < r2["flexible"] < 0.01


def test_half_of_the_variance():
    # The line from p + e to p explains var(p) / (var(p) + var(e)), here one half.
    positions, documents = text(200, 50)
    norms = positions + positions.std() * generator(2).normal(size=len(positions))  # [tokens]
    r2 = norm_r2(norms, positions, seed=0, groups=documents)
    assert r2["linear"] == pytest.approx(0.5, abs=0.02)
    assert r2["flexible"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
def test_a_constant_norm_is_the_zero_of_the_scale(constant):
    positions, documents = text(23, 17)
    for groups in (None, documents):
        r2 = norm_r2(np.full(len(positions), constant), positions, seed=3, groups=groups)
        assert r2 == pytest.approx({"linear": 0, "flexible": 0}, abs=1e-12)


def test_what_a_document_shares_is_not_learnt_across_folds():
    # The norm is the document's name and tells its only position, but not that of another.
    documents = np.repeat(np.arange(200), 20)  # [tokens]
    norms = generator(4).permutation(200)[documents]  # [tokens]
    positions = generator(5).integers(0, 50, 200)[documents]  # [tokens]
    assert norm_r2(norms, positions, seed=0)["flexible"] > 0.3
    assert norm_r2(norms, positions, seed=0, groups=documents)["flexible"] < 0.05


def test_linear_r2_of_single_folds_agrees_with_least_squares():
    # With as many folds as tokens, no shuffle matters: each is predicted from all others.
    rng = generator(6)
    norms, positions = rng.normal(size=25), rng.normal(size=25)  # [tokens] each
    keep = ~np.eye(25, dtype=bool)  # [left out, tokens]
    predicted = [np.polyval(np.polyfit(norms[k], positions[k], 1), norms[~k])[0] for k in keep]
    means = [positions[k].mean() for k in keep]
    expected = 1 - np.sum((positions - predicted) ** 2) / np.sum((positions - means) ** 2)
    ours = norm_r2(norms, positions, seed=0, folds=25)["linear"]
    assert ours == pytest.approx(expected, rel=1e-10)


def test_cross_validation_nears_the_fit_of_many_tokens():
    rng = generator(7)
    positions = rng.integers(0, 500, 20_000)  # [tokens]
    norms = np.sqrt(positions) + rng.normal(size=20_000)  # [tokens]
    fitted = LinearRegression().fit(norms[:, None], positions).predict(norms[:, None])
    ours = norm_r2(norms, positions, seed=0)["linear"]
    assert ours == pytest.approx(r2_score(positions, fitted), abs=2e-3)


def test_the_seed_alone_chooses_the_folds():
    rng = generator(8)
    positions = np.arange(300)
    norms = positions + rng.normal(0, 100, 300)  # [tokens]
    assert norm_r2(norms, positions, seed=1) == norm_r2(norms, positions, seed=1)
    assert norm_r2(norms, positions, seed=1) != norm_r2(norms, positions, seed=2)


@pytest.mark.parametrize(
    ("norms", "positions", "groups", "message"),
    [
        (np.ones(9), np.arange(10), None, "shapes"),
        (np.ones((10, 1)), np.arange(10), None, "shapes"),
        (np.ones(10), np.arange(10), np.arange(9), "shapes"),
        (np.full(10, np.nan), np.arange(10), None, "finite"),
        (np.arange(10), np.ones(10), None, "no variance"),
        ([], [], None, "^all positions are the same: they have no variance to explain$"),
        ([1.0], [1.0], None, "no variance"),
        (np.arange(10), np.arange(10), np.arange(10) % 4, "groups"),
    ],
)
def test_what_explains_no_position_is_refused(norms, positions, groups, message):
    with pytest.raises(ValueError, match=message):
        norm_r2(norms, positions, seed=0, groups=groups)


def test_layer_norm_has_mean_zero_and_variance_one():
    x = generator(9).normal(3, 7, size=(4, 11, 32))  # [documents, tokens, d]
    normed = layer_norm(x, eps=0)
    np.testing.assert_allclose(normed.mean(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose((normed**2).mean(axis=-1), 1, rtol=1e-12)
    # With eps the rows are shorter by √(variance / (variance + eps)), and point the same way.
    ratio = np.sqrt(x.var(axis=-1) / (x.var(axis=-1) + 5))[..., None]  # [documents, tokens, 1]
    np.testing.assert_allclose(layer_norm(x, eps=5), normed * ratio, rtol=1e-12)


def test_layer_norm_by_hand():
    # Mean 3 and variance (4 + 4 + 1 + 9) / 4 = 4.5.
    expected = np.array([-2, -2, 1, 3]) / np.sqrt(4.5)
    np.testing.assert_allclose(layer_norm([1, 1, 4, 6], eps=0), expected, rtol=1e-15)


def test_layer_norm_erases_any_positive_scale_of_a_token():
    rng = generator(10)
    x = rng.normal(size=(500, 64)) + rng.normal(size=64)  # [tokens, d]
    scale = np.exp(rng.uniform(-20, 20, (500, 1)))  # [tokens, 1]
    plain = layer_norm(x, eps=0)
    np.testing.assert_allclose(layer_norm(scale * x, eps=0), plain, rtol=0, atol=1e-12)
    # A negative scale turns it, and a shift of single dimensions is not erased.
    np.testing.assert_allclose(layer_norm(-scale * x, eps=0), -plain, rtol=0, atol=1e-12)
    assert np.abs(layer_norm(x + np.arange(64), eps=0) - plain).max() > 0.1


def test_eps_keeps_the_scale_of_small_tokens():
    x = generator(11).normal(size=(100, 64))  # [tokens, d]
    plain = layer_norm(x, eps=1e-5)
    assert np.abs(layer_norm(1e-3 * x, eps=1e-5) - plain).max() > 0.5
    # A token a thousand times as long hides it again.
    np.testing.assert_allclose(layer_norm(1e3 * x, eps=1e-5), layer_norm(x, 0), atol=1e-9)


def test_a_layer_norm_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"^a row is constant and eps is 0: .* is undefined$"):
        layer_norm(np.ones((3, 4)), eps=0)
    with pytest.raises(ValueError, match="negative"):
        layer_norm(np.eye(3), eps=-1e-5)
    assert not layer_norm(np.ones((3, 4)), eps=1e-5).any()
