"""Means over pairs of documents: a loop over copies, and planted effects of documents."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from posenc.artifacts.results import Interval
from posenc.measurements.similarity import measure as similarity
from posenc.metrics.bootstrap import percentile_interval, ratio_replicates, resampling_counts
from posenc.metrics.pairs import pair_replicates
from posenc.metrics.similarity import random_pairs, rescaled, same_document_pairs

NULLS = ("baseline", "same_document", "same_token")
DOCUMENTS, TOKENS, PAIRS, LEVEL = 40, 25, 1000, 0.9
MEAN, COSINE, SPREAD = 0.3, 0.7, 0.05
"""Of a null, of the cosine, and the standard deviation of what a document adds to both."""
PARAMETERS = similarity.Similarity(
    special_tokens=True, baseline_pairs=PAIRS, histogram_bins=10, bootstrap_samples=100,
    confidence=LEVEL, sample_tokens=100, seed=0,
)  # fmt: skip


def test_replicates_are_those_of_a_loop_over_copies_of_documents(monkeypatch):
    rng = np.random.default_rng(0)
    first, second = rng.integers(5, size=(2, 30))  # [pairs] each; some within one document
    values = rng.normal(size=(30, 2))
    options = {"things": 6, "samples": 50, "seed": 3}
    replicates = pair_replicates(values, first, second, **options)
    counts = np.concatenate(list(resampling_counts(6, 50, 3)))  # [samples, documents]
    assert (first == second).any() and len(replicates) == 50
    for drawn, replicate in zip(counts, replicates, strict=True):
        copies = [(d, copy) for d in range(6) for copy in range(drawn[d])]
        seen = [
            value
            for drawn_copy, other in itertools.product(copies, copies)
            for i, j, value in zip(first, second, values, strict=True)
            # A pair within a document lies in one copy, any other between two.
            if (drawn_copy[0], other[0]) == (i, j) and (i != j or drawn_copy == other)
        ]
        np.testing.assert_allclose(replicate, np.mean(seen, axis=0))
    monkeypatch.setattr("posenc.metrics.pairs._BLOCK_WEIGHTS", 70)
    np.testing.assert_allclose(pair_replicates(values, first, second, **options), replicates)


def test_a_resample_without_a_pair_has_no_mean():
    replicates = pair_replicates([[2.0]], [0], [1], things=2, samples=40, seed=0)[:, 0]  # [samples]
    (counts,) = resampling_counts(2, 40, 0)  # [samples, 2]
    np.testing.assert_array_equal(replicates, np.where(counts.all(axis=1), 2.0, np.nan))


def test_documents_of_pairs_are_those_of_a_mean_over_tokens():
    """An interval of the two together thus knows what they have in common."""
    of_documents = np.random.default_rng(1).normal(size=(7, 1))
    everyone = np.arange(7)
    np.testing.assert_allclose(
        pair_replicates(of_documents, everyone, everyone, things=7, samples=30, seed=5),
        ratio_replicates(of_documents, np.ones(7), 30, 5),
    )


def drawn(seed: int) -> dict[str, np.ndarray]:
    """What a data set of documents gives, with the old interval of each null.

    A document adds its own effect to the cosine of its tokens, and half of it to a null, from
    both sides of a pair.
    """
    rng = np.random.default_rng(seed)
    effect = SPREAD * rng.normal(size=DOCUMENTS)  # [documents]
    document = np.repeat(np.arange(DOCUMENTS), TOKENS)  # [tokens]
    pairs = {
        "baseline": random_pairs(document, PAIRS, seed),
        "same_token": random_pairs(document, PAIRS, seed + 1),
        "same_document": same_document_pairs(np.arange(len(document)), document, PAIRS, seed),
    }
    of_pairs = {name: (document[i], document[j]) for name, (i, j) in pairs.items()}
    nulls = {
        name: (MEAN + (effect[i] + effect[j]) / 2 + 0.03 * rng.normal(size=PAIRS))[:, None]
        for name, (i, j) in of_pairs.items()
    }  # [pairs, 1] each
    counts = np.full(DOCUMENTS, TOKENS)
    sums = counts[:, None] * (COSINE + effect[:, None])  # [documents, 1]
    unused = Interval(value=0, low=0, high=0)
    compared = {"cka": 0.0, **dict.fromkeys(("centred", "standardised", "retrieval"), unused)}
    seeds = np.random.SeedSequence(seed)
    (measured,) = similarity.layers(
        PARAMETERS, sums, counts, np.zeros(1), nulls, of_pairs, seeds, [compared]
    )
    layer = measured.as_json()
    for name in NULLS:
        replicates = ratio_replicates(nulls[name][:, 0], np.ones(PAIRS), 100, seed)  # [samples]
        old = percentile_interval(nulls[name].mean(), replicates, LEVEL)
        assert layer[name]["value"] == old.value  # in all digits
        layer[f"old_{name}"] = old.as_json()
    return layer


def test_intervals_of_nulls_are_as_wide_as_data_sets_are_apart():
    """Coverage, and width against the standard deviation over simulated data sets."""
    sets = [drawn(seed) for seed in range(0, 800, 2)]

    def judged(name: str, truth: float) -> tuple[float, float]:
        value, low, high = (
            np.array([data_set[name][key] for data_set in sets]) for key in ("value", "low", "high")
        )
        covered = np.mean((low <= truth) & (truth <= high))
        return covered, np.mean(high - low) / (2 * 1.645 * value.std())

    for name in NULLS:
        # Two documents of a pair, or one twice: the mean over documents of their effects.
        assert np.std([data_set[name]["value"] for data_set in sets]) == pytest.approx(
            SPREAD / np.sqrt(DOCUMENTS), rel=0.12
        )
        covered, width = judged(name, MEAN)
        assert covered == pytest.approx(LEVEL, abs=0.05), name
        assert width == pytest.approx(1, abs=0.12), name
        covered, width = judged(similarity.RESCALED[name], float(rescaled(COSINE, MEAN)))
        assert covered == pytest.approx(LEVEL, abs=0.05), name
        assert width == pytest.approx(1, abs=0.12), name
        # Pairs, resampled as if they had nothing in common.
        covered, width = judged(f"old_{name}", MEAN)
        assert covered < 0.5 and width < 0.5, name
