"""Documents in categories: resamples by brute force, exact permutations, planted differences."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from posenc.metrics.categories import CategoryMeans, differences, two_level_counts
from posenc.metrics.recovery import PairedMeans

DRAWS = {"permutations": 400, "samples": 400, "confidence": 0.9, "seed": 5}
BOOTSTRAP = {"samples": 1000, "confidence": 0.9, "seed": 3}


def resamples(categories):
    """All outcomes of the two levels, with their probabilities, by brute force."""
    names = sorted(set(categories))
    members = {
        name: [n for n, category in enumerate(categories) if category == name] for name in names
    }
    outcomes = Counter()
    for drawn in itertools.product(names, repeat=len(names)):
        within = [itertools.product(members[n], repeat=len(members[n])) for n in drawn]
        for documents in itertools.product(*within):
            flat = list(itertools.chain.from_iterable(documents))
            counts = tuple(flat.count(n) for n in range(len(categories)))
            chance = math.prod(len(members[n]) ** -len(members[n]) for n in drawn)
            outcomes[counts] += chance / len(names) ** len(names)
    return outcomes


@pytest.mark.parametrize("categories", ["abb", "bab", "abbc"])
def test_resamples_have_the_probabilities_of_all_outcomes(categories):
    samples = 20_000
    expected = resamples(categories)
    assert sum(expected.values()) == pytest.approx(1)
    frequencies = Counter(map(tuple, two_level_counts(list(categories), samples, 0).tolist()))
    assert set(frequencies) <= set(expected)
    for counts, chance in expected.items():
        error = math.sqrt(chance * (1 - chance) / samples)
        assert abs(frequencies[counts] / samples - chance) < 5 * error, counts


def test_replicates_are_ratios_of_the_documents_that_are_drawn():
    generator = np.random.default_rng(1)
    sums, tokens = generator.normal(size=(7, 2)), generator.integers(1, 5, 7)
    categories = list("abbcaca")
    means = CategoryMeans(sums, tokens, categories, **BOOTSTRAP)
    np.testing.assert_allclose(means.value, sums.sum(axis=0) / tokens.sum())
    drawn = two_level_counts(categories, 1000, 3)
    for row in (0, 17, 999):
        own = np.repeat(np.arange(7), drawn[row])
        np.testing.assert_allclose(means.replicates[row], sums[own].sum(axis=0) / tokens[own].sum())


def widths(effect):
    """Interval widths over documents alone and over both; 12 categories of 30 documents."""
    generator = np.random.default_rng(7)
    categories = np.repeat(np.arange(12), 30)
    own = generator.normal(size=12) * effect
    tokens = generator.integers(5, 15, 360)
    sums = tokens * (own[categories] + generator.normal(size=360))
    lengths = []
    for means in (
        PairedMeans(sums[:, None], tokens, **BOOTSTRAP),
        CategoryMeans(sums[:, None], tokens, categories, **BOOTSTRAP),
    ):
        interval = means.of(lambda value: value, 0)
        lengths.append(interval.high - interval.low)
    return lengths


def test_an_interval_over_categories_is_wider_where_they_differ():
    documents, both = widths(1.0)
    assert both > 3 * documents
    documents, both = widths(0.0)
    assert 0.8 * documents < both < 2 * documents


def test_p_values_are_the_shares_of_all_permutations():
    sums, tokens = np.array([1.0, 2.5, -0.5, 3.0, 1.5, 2.0]), np.array([1, 2, 1, 3, 1, 2])
    codes = np.array([0, 0, 1, 1, 1, 2])
    whole, sizes = sums.sum() / tokens.sum(), np.array([2, 3, 1])

    def distances(order):
        return np.array(
            [sums[order][codes == c].sum() / tokens[order][codes == c].sum() for c in range(3)]
        ) - whole  # fmt: skip

    every = np.array([distances(list(o)) for o in itertools.permutations(range(6))])  # [720, 3]
    own = distances(np.arange(6))
    variances = (every**2 * sizes).sum(axis=1) / 6
    largest = (np.sqrt(sizes) * abs(every)).max(axis=1)
    exact = np.mean(variances >= (own**2 * sizes).sum() / 6 - 1e-9)
    result = differences(sums, tokens, codes, **{**DRAWS, "permutations": 8000})
    assert result.variance == pytest.approx((own**2 * sizes).sum() / 6)
    assert result.expected == pytest.approx(variances.mean(), rel=0.05)
    assert result.p_value == pytest.approx(exact, abs=0.03)
    for place in range(3):
        far = np.mean(largest >= np.sqrt(sizes[place]) * abs(own[place]) - 1e-9)
        assert result.p_values[place] == pytest.approx(far, abs=0.03)
    np.testing.assert_allclose(result.mean.value, own + whole)
    assert result.documents.tolist() == [2, 3, 1]
    assert result.mean.low[2] == result.mean.high[2] == pytest.approx(1.0)


def made_up(seed, effect=0.0):
    generator = np.random.default_rng(seed)
    categories = np.array(["law", "myths", "weather", "maps"])[np.arange(80) % 4]
    tokens = generator.integers(5, 15, 80)
    sums = tokens * (generator.normal(size=80) + effect * (categories == "myths"))
    return differences(sums, tokens, categories, **{**DRAWS, "permutations": 199, "samples": 100})


def test_a_planted_category_is_found_and_no_other():
    result = made_up(0, effect=1.5)
    assert result.p_value == 1 / 200
    assert result.names.tolist() == ["law", "maps", "myths", "weather"]
    assert [p < 0.05 for p in result.p_values] == [False, False, True, False]
    assert result.mean.low[2] > 0.8 and result.variance > 5 * result.expected


def test_where_nothing_differs_p_values_are_those_of_chance():
    results = [made_up(seed) for seed in range(1, 61)]
    overall = np.array([result.p_value for result in results])
    # A corrected p-value is small in as many sets as a single test's.
    smallest = np.array([result.p_values.min() for result in results])
    for values in (overall, smallest):
        assert np.mean(values < 0.05) < 0.15 and 0.35 < np.mean(values) < 0.65


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="one category"):
        differences([1.0, 2.0], [1, 1], ["a", "a"], **DRAWS)
    with pytest.raises(ValueError, match="one category"):
        CategoryMeans([[1.0], [2.0]], [1, 1], ["a", "a"], **BOOTSTRAP)
    with pytest.raises(ValueError, match="no token"):
        differences([1.0, 2.0], [1, 0], ["a", "b"], **DRAWS)
    with pytest.raises(ValueError, match="no token"):
        CategoryMeans([[1.0], [2.0]], [1, 0], ["a", "b"], **BOOTSTRAP)
