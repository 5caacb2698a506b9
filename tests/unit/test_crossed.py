"""Means over documents and fits: against loops, and against what varies alone."""

from __future__ import annotations

import numpy as np
import pytest

from posenc.metrics.crossed import CrossedMeans, nested_weights, spreads


def test_replicates_are_those_of_a_loop_over_documents_and_seeds(monkeypatch):
    generator = np.random.default_rng(1)
    sums, tokens = generator.uniform(1, 9, (3, 4, 2)), np.array([1, 3, 2, 5])
    means = CrossedMeans(sums, tokens, samples=100, confidence=0.9, seed=7)
    np.testing.assert_allclose(means.value, sums.mean(axis=0).sum(axis=0) / 11)
    np.testing.assert_allclose(means.of_fits[2], sums[2].sum(axis=0) / 11)
    drawn = np.random.default_rng(7).integers(4, size=(100, 4))
    others = np.random.default_rng(np.random.SeedSequence([7, 1])).integers(3, size=(100, 3))
    for row in (0, 41, 99):
        of_seeds = [
            np.sum([sums[seed, document] for document in drawn[row]], axis=0)
            for seed in others[row]
        ]
        expected = np.mean(of_seeds, axis=0) / tokens[drawn[row]].sum()
        np.testing.assert_allclose(means.replicates[row], expected)


def test_intervals_cover_what_varies_alone():
    """Equal seeds: it is over documents alone. Equal documents: over seeds alone."""
    generator = np.random.default_rng(2)
    of_document = generator.normal(10, 1, 40)
    alike = np.repeat(of_document[None, :, None], 3, axis=0)
    means = CrossedMeans(alike, np.ones(40), samples=1000, confidence=0.95, seed=0)
    assert means.replicates.std() == pytest.approx(of_document.std() / np.sqrt(40), rel=0.1)
    of_seed = np.array([1.0, 2.0, 6.0])
    alike = np.repeat(of_seed[:, None, None], 40, axis=1)
    means = CrossedMeans(alike, np.ones(40), samples=2000, confidence=0.95, seed=0)
    assert means.replicates.std() == pytest.approx(of_seed.std() / np.sqrt(3), rel=0.1)


def test_fits_of_a_draw_are_resampled_within_it():
    """Against a loop over draws, and over the fits of each that is drawn."""
    weights = nested_weights(3, 2, 100, 7)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    generator = np.random.default_rng(np.random.SeedSequence([7, 1]))
    draws = generator.integers(3, size=(100, 3))
    fits = generator.integers(2, size=(100, 3, 2))
    for row in (0, 41, 99):
        expected = np.zeros((3, 2))
        for draw, resampled in zip(draws[row], fits[row], strict=True):
            for fit in resampled:
                expected[draw, fit] += 1 / 6
        np.testing.assert_allclose(weights[row], expected.ravel())


def test_fits_that_agree_within_their_draw_add_nothing():
    """Two fits of each of three draws, alike: the interval is that of three draws, not of six."""
    of_draw = np.array([1.0, 2.0, 6.0])
    alike = np.repeat(np.repeat(of_draw, 2)[:, None, None], 40, axis=1)  # [fits, documents, 1]
    given = {"samples": 4000, "confidence": 0.95, "seed": 0}
    nested = CrossedMeans(alike, np.ones(40), **given, per_draw=2).replicates.std()
    flat = CrossedMeans(alike, np.ones(40), **given).replicates.std()
    assert nested == pytest.approx(of_draw.std() / np.sqrt(3), rel=0.05)
    assert flat == pytest.approx(of_draw.std() / np.sqrt(6), rel=0.05)


def test_spreads_are_those_that_were_planted():
    generator = np.random.default_rng(0)
    draws = generator.normal(0, 2.0, (4000, 1))
    spread = spreads(draws + generator.normal(0, 0.5, (4000, 3)))
    assert spread["between_draws"] == pytest.approx(2.0, rel=0.05)
    assert spread["within_draws"] == pytest.approx(0.5, rel=0.05)
    # Draws that scatter less than their fits explain do not scatter.
    assert spreads([[0.0, 2.0], [2.0, 0.0]])["between_draws"] == 0


def test_what_has_no_second_fit_or_draw_is_refused():
    with pytest.raises(ValueError, match=r"two draws with two fits each, not \(1, 3\)"):
        spreads([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="0 draws with 2 fits each"):
        nested_weights(0, 2, 10, 0)
