"""The mathematics of the measurements, against independent references and known laws."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, stats
from scipy.spatial import distance
from scipy.special import log_softmax, softmax

from posenc.metrics import bootstrap, moments, patterns, perplexity, similarity

SETTINGS = {"samples": 200, "confidence": 0.95, "seed": 0}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def documents_with_effects(rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums and lengths of documents whose tokens share an effect; the expected ratio is 2."""
    lengths = rng.integers(5, 60, n)  # [n]
    effects = rng.normal(0, 1, n)  # [n]
    noise = rng.normal(0, 1, n) * np.sqrt(lengths)  # [n]
    return lengths * (2 + effects) + noise, lengths


@pytest.mark.parametrize("block_counts", [1, 100, 2**20])
def test_counts_are_those_of_a_loop_over_the_same_draws(block_counts):
    documents = 30
    blocks = bootstrap.resampling_counts(documents, 40, 7, block_counts)
    counts = np.concatenate(list(blocks))  # [samples, documents]
    assert counts.shape == (40, documents)
    rng = generator(7)
    for row in counts:
        drawn = rng.integers(documents, size=documents)
        assert row.tolist() == [int(np.sum(drawn == document)) for document in range(documents)]


def test_counts_follow_the_multinomial_law():
    documents, samples = 20, 20_000
    counts = np.concatenate(list(bootstrap.resampling_counts(documents, samples, 0)))
    assert (counts.sum(axis=1) == documents).all()
    # One cell of a uniform multinomial is binomial(documents, 1 / documents).
    observed = np.bincount(counts[:, 3], minlength=6)[:6]
    expected = samples * stats.binom.pmf(np.arange(6), documents, 1 / documents)
    assert np.abs(observed - expected).max() < 4.5 * np.sqrt(expected.max())


@pytest.mark.parametrize("k", [None, 3])
def test_ratio_bootstrap_agrees_with_a_loop(k):
    rng = generator(1)
    numerators = rng.normal(size=(25,) if k is None else (25, k))
    denominators = rng.integers(1, 9, 25)
    estimate = bootstrap.ratio_bootstrap(numerators, denominators, 300, 0.9, seed=5)
    draws, replicates = generator(5), []
    for _ in range(300):
        index = draws.integers(25, size=25)
        replicates.append(numerators[index].sum(axis=0) / denominators[index].sum())
    low, high = np.percentile(replicates, [5, 95], axis=0)
    np.testing.assert_allclose(estimate.value, numerators.sum(axis=0) / denominators.sum())
    np.testing.assert_allclose(estimate.low, low, rtol=1e-12)
    np.testing.assert_allclose(estimate.high, high, rtol=1e-12)


def test_interval_of_a_mean_agrees_with_scipy():
    values = generator(2).exponential(size=80)
    ours = bootstrap.ratio_bootstrap(values, np.ones(80), 20_000, 0.95, seed=0)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", random_state=1
    ).confidence_interval
    width = theirs.high - theirs.low
    assert abs(ours.low - theirs.low) < 0.03 * width
    assert abs(ours.high - theirs.high) < 0.03 * width


def test_coverage_is_near_nominal_for_clustered_tokens():
    covered = 0
    for trial in range(400):
        sums, lengths = documents_with_effects(generator(trial), 60)
        estimate = bootstrap.ratio_bootstrap(sums, lengths, 300, 0.9, seed=trial)
        covered += estimate.low <= 2 <= estimate.high
    # The standard error of the share is 0.015; percentile intervals cover slightly too little.
    assert 0.84 < covered / 400 < 0.94


def test_more_documents_than_a_block_holds():
    sums, lengths = documents_with_effects(generator(3), 3000)
    samples = 2 * bootstrap._BLOCK_COUNTS // 3000 + 5
    replicates = bootstrap.ratio_replicates(sums, lengths, samples, seed=0)
    assert replicates.shape == (samples,)
    assert len(np.unique(replicates)) == samples
    assert abs(replicates.mean() - sums.sum() / lengths.sum()) < 0.01


def test_a_paired_interval_is_narrower_for_correlated_documents():
    rng = generator(4)
    intact, lengths = documents_with_effects(rng, 200)
    condition = intact + lengths * 0.5 + rng.normal(0, 1, 200)
    paired = bootstrap.paired_ratio_bootstrap(condition, intact, lengths, 500, 0.95, 0)
    first = bootstrap.ratio_replicates(condition, lengths, 500, seed=1)
    second = bootstrap.ratio_replicates(intact, lengths, 500, seed=2)
    unpaired = bootstrap.percentile_interval(paired.value, first - second, 0.95)
    assert paired.low < 0.5 < paired.high
    assert paired.high - paired.low < 0.1 * (unpaired.high - unpaired.low)


def test_transform_applies_to_value_and_bounds():
    sums, lengths = documents_with_effects(generator(5), 40)
    plain = bootstrap.ratio_bootstrap(sums, lengths, 100, 0.95, 0)
    powers = bootstrap.ratio_bootstrap(sums, lengths, 100, 0.95, 0, np.exp)
    assert powers.as_json() == {key: float(np.exp(v)) for key, v in plain.as_json().items()}


def test_estimates_are_frozen_and_serialise():
    scalar = bootstrap.ratio_bootstrap([1.0, 3.0], [1, 1], 10, 0.5, 0)
    assert all(type(value) is float for value in scalar.as_json().values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        scalar.value = 0.0
    several = bootstrap.ratio_bootstrap([[1.0, 10.0], [3.0, 30.0]], [1, 1], 10, 0.5, 0).as_json()
    assert [estimate["value"] for estimate in several] == [2.0, 20.0]
    assert several[0] == scalar.as_json()


def test_a_document_without_tokens_changes_nothing():
    few = bootstrap.ratio_bootstrap([1.0, 3.0, 2.0], [1, 1, 2], 50, 0.9, 0)
    more = bootstrap.ratio_bootstrap([1.0, 0.0, 3.0, 2.0, 0.0], [1, 0, 1, 2, 0], 50, 0.9, 0)
    assert more.as_json() == few.as_json()


@pytest.mark.parametrize(
    ("numerators", "denominators", "message"),
    [
        ([1.0, 2.0], [1], "2 numerators for 1"),
        ([1.0], [[1]], "shapes"),
        ([np.nan, 1.0], [1, 1], "finite"),
        ([1.0, 1.0], [2, -1], "negative"),
        ([0.0, 0.0], [0, 0], "zero"),
        ([1.0, 1.0], [0, 1], "too few documents"),
    ],
)
def test_bootstrap_rejects(numerators, denominators, message):
    with pytest.raises(ValueError, match=message):
        bootstrap.ratio_bootstrap(numerators, denominators, 100, 0.95, 0)


def test_pairing_rejects_other_shapes_and_confidence_is_a_share():
    with pytest.raises(ValueError, match="paired"):
        bootstrap.paired_ratio_bootstrap([1.0], [1.0, 2.0], [1, 1], 100, 0.95, 0)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap.ratio_bootstrap([1.0], [1], 100, 95, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cosines_agree_with_scipy(dtype):
    rng = generator(6)
    x = (100 * rng.normal(size=(600, 48))).astype(dtype)  # 600 rows: more than two blocks
    y = (x + rng.normal(size=x.shape) * np.linspace(0, 300, 600)[:, None]).astype(dtype)
    expected = [
        1 - distance.cosine(a, b)
        for a, b in zip(x.astype(np.float64), y.astype(np.float64), strict=True)
    ]
    cosines = similarity.token_cosines(x, y)
    assert cosines.dtype == np.float64
    np.testing.assert_allclose(cosines, expected, rtol=0, atol=1e-14)


def test_float16_neither_overflows_nor_loses_small_values():
    large = np.full((1, 768), 60_000, np.float16)
    small = np.full((1, 768), 6e-8, np.float16)  # the smallest subnormal
    assert similarity.token_cosines(large, large).tolist() == [1.0]
    assert similarity.token_cosines(large, small).tolist() == pytest.approx([1.0], abs=1e-15)
    assert similarity.token_cosines(large, -large).tolist() == [-1.0]


@given(arrays(np.float32, (3, 5), elements=st.floats(-1e4, 1e4, width=32).filter(bool)))
def test_equal_rows_have_cosine_exactly_one_and_scale_does_not_matter(x):
    assert similarity.token_cosines(x, x).tolist() == [1.0] * 3
    scaled = similarity.token_cosines(x, x * np.float32(4))
    assert scaled.tolist() == pytest.approx([1.0] * 3, abs=1e-15)
    assert np.all(np.abs(similarity.token_cosines(x, x[::-1])) <= 1)


def test_cosines_of_one_direction_do_not_pass_one():
    x = generator(19).normal(size=(500, 7))
    y = x * generator(20).uniform(0.1, 9, (500, 1))
    free = np.sum(x * y, axis=1) / np.sqrt(np.sum(x * x, axis=1) * np.sum(y * y, axis=1))
    assert free.max() > 1, "rounding"
    for sign in (1, -1):
        cosines = sign * similarity.token_cosines(x, sign * y)
        assert cosines.max() == 1
        np.testing.assert_allclose(cosines, 1, rtol=0, atol=1e-15)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_an_undefined_cosine_is_an_error_that_names_the_token(bad):
    x = np.ones((700, 4), np.float16)
    y = x.copy()
    y[650] = bad
    with pytest.raises(ValueError, match="token 650"):
        similarity.token_cosines(x, y)
    with pytest.raises(ValueError, match="shapes"):
        similarity.token_cosines(x, x[:, :2])


@given(
    lengths=st.lists(st.integers(1, 30), min_size=2, max_size=8),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_pairs_are_of_different_documents(lengths, seed):
    document = np.repeat(np.arange(len(lengths)) * 10, lengths)  # [tokens]
    document = generator(seed).permutation(document)
    i, j = similarity.random_pairs(document, 200, seed)
    assert i.shape == j.shape == (200,)
    assert (document[i] != document[j]).all()
    again = similarity.random_pairs(document, 200, seed)
    assert np.array_equal(i, again[0]) and np.array_equal(j, again[1])


def test_random_pairs_are_uniform_over_admissible_pairs():
    document = np.array([0, 0, 0, 0, 0, 1, 2, 2])  # unequal lengths
    i, j = similarity.random_pairs(document, 100_000, 0)
    observed = np.zeros((8, 8))
    np.add.at(observed, (i, j), 1)
    admissible = document[:, None] != document[None, :]
    assert (observed[~admissible] == 0).all()
    assert stats.chisquare(observed[admissible]).pvalue > 1e-3


def test_random_pairs_with_one_dominant_document_and_with_one_only():
    document = np.array([0] * 100_000 + [1])
    i, j = similarity.random_pairs(document, 50, 0)
    assert (document[i] + document[j] == 1).all()
    with pytest.raises(ValueError, match="two documents"):
        similarity.random_pairs([3, 3, 3], 10, 0)


OCCURRENCES = st.lists(st.tuples(st.integers(-3, 4), st.integers(0, 4)), min_size=1, max_size=60)
"""Tokens of few words in few documents, in any order."""


def partners_of(token, document) -> list[list[int]]:
    """By a loop: the other tokens of each token's id that are in another document."""
    return [
        [b for b in range(len(token)) if token[a] == token[b] and document[a] != document[b]]
        for a in range(len(token))
    ]


@given(OCCURRENCES, st.integers(0, 2**32 - 1))
def test_pairs_of_the_same_token_share_it_and_are_of_different_documents(occurrences, seed):
    token, document = np.array(occurrences).T  # [tokens] each
    expected = partners_of(token, document)
    counted = similarity.same_token_partners(token, document)
    assert counted.tolist() == [len(others) for others in expected]
    if not any(expected):
        with pytest.raises(ValueError, match="no token is in two documents"):
            similarity.same_token_pairs(token, document, 50, seed)
        return
    i, j = similarity.same_token_pairs(token, document, 50, seed)
    assert i.shape == j.shape == (50,)
    assert (token[i] == token[j]).all() and (document[i] != document[j]).all()
    again = similarity.same_token_pairs(token, document, 50, seed)
    assert np.array_equal(i, again[0]) and np.array_equal(j, again[1])


@given(OCCURRENCES, st.integers(0, 2**32 - 1))
def test_pairs_of_one_document_share_it_and_are_of_different_tokens(occurrences, seed):
    token, document = np.array(occurrences).T  # [tokens] each
    expected = partners_of(document, token)
    if not any(expected):
        with pytest.raises(ValueError, match="no document has two different tokens"):
            similarity.same_document_pairs(token, document, 50, seed)
        return
    i, j = similarity.same_document_pairs(token, document, 50, seed)
    assert i.shape == j.shape == (50,)
    assert (document[i] == document[j]).all() and (token[i] != token[j]).all()


def test_pairs_of_one_document_are_uniform_over_first_tokens_and_their_partners():
    token = np.array([7, 2, 7, 7, 2, 9, 7, 2, 5, 5, 7, 3])
    document = np.array([4, 4, 1, 1, 1, 1, 0, 0, 0, 0, 6, 1])  # one of a single token
    partners = partners_of(document, token)
    having = [a for a, others in enumerate(partners) if others]
    assert len(having) == 11
    probability = np.zeros((12, 12))
    for a in having:
        probability[a, partners[a]] = 1 / len(having) / len(partners[a])
    observed = np.zeros((12, 12))
    np.add.at(observed, similarity.same_document_pairs(token, document, 100_000, 0), 1)
    possible = probability > 0
    assert (observed[~possible] == 0).all()
    assert stats.chisquare(observed[possible], 1e5 * probability[possible]).pvalue > 1e-3


def test_pairs_of_the_same_token_weigh_words_as_the_text_does():
    """The first is uniform over all tokens with a partner, the second over its partners."""
    token = np.array([7, 2, 7, 7, 2, 9, 7, 2, 5, 5, 7, 3])
    document = np.array([4, 4, 1, 1, 1, 1, 0, 0, 0, 0, 4, 1])
    partners = partners_of(token, document)
    having = [a for a, others in enumerate(partners) if others]
    assert len(having) == 8, "the words 9, 5 and 3 are in one document each"
    probability = np.zeros((12, 12))
    for a in having:
        probability[a, partners[a]] = 1 / len(having) / len(partners[a])
    draws = 100_000
    i, j = similarity.same_token_pairs(token, document, draws, 0)
    observed = np.zeros((12, 12))
    np.add.at(observed, (i, j), 1)
    possible = probability > 0
    assert (observed[~possible] == 0).all()
    expected = draws * probability[possible]
    assert stats.chisquare(observed[possible], expected).pvalue > 1e-3
    uniform = np.full_like(expected, draws / possible.sum())
    assert stats.chisquare(observed[possible], uniform).pvalue < 1e-9, "over pairs it is another"


def test_baseline_finds_the_anisotropy_of_shifted_gaussians():
    d, shift = 256, 1.5
    x = generator(8).normal(size=(4000, d)) + shift
    i, j = similarity.random_pairs(np.arange(4000) // 20, 20_000, 0)
    # For large d the cosine tends to shift² / (1 + shift²).
    expected = shift**2 / (1 + shift**2)
    assert similarity.token_cosines(x[i], x[j]).mean() == pytest.approx(expected, abs=0.005)


@given(st.floats(-1, 1), st.floats(-1, 0.99))
def test_rescaled_identities(cosine, baseline):
    assert similarity.rescaled(baseline, baseline) == 0
    assert similarity.rescaled(1.0, baseline) == 1
    assert similarity.rescaled(cosine, 0.0) == cosine
    value = float(similarity.rescaled(cosine, baseline))
    assert value * (1 - baseline) + baseline == pytest.approx(cosine, abs=1e-12)


def test_rescaled_has_no_meaning_when_the_baseline_is_one():
    with pytest.raises(ValueError, match="one direction"):
        similarity.rescaled([0.5, 0.5], [0.2, 1.0])


@pytest.mark.parametrize("d", [3, 64, 384])
def test_cosines_of_gaussian_vectors_follow_the_analytic_law(d):
    rng = generator(d)
    cosines = similarity.token_cosines(*rng.normal(size=(2, 20_000, d)))
    law = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    assert stats.kstest(cosines, law.cdf).pvalue > 0.01
    assert law.std() == pytest.approx(similarity.gaussian_null_sd(d), rel=1e-12)
    # The standard error of a standard deviation is about sd / √(2n).
    assert cosines.std() == pytest.approx(similarity.gaussian_null_sd(d), rel=4 / np.sqrt(40_000))
    t = np.linspace(-0.99, 0.99, 101)
    np.testing.assert_allclose(similarity.gaussian_null_density(t, d), law.pdf(t), 1e-9, 1e-300)


@pytest.mark.parametrize("d", [3, 4, 64, 384, 4096])
def test_gaussian_null_density_integrates_to_one_with_variance_one_over_d(d):
    edge = min(1.0, 12 / np.sqrt(d))
    moments = [
        integrate.quad(lambda t, p=p: t**p * similarity.gaussian_null_density(t, d), -edge, edge)[0]
        for p in (0, 1, 2)
    ]
    assert moments == pytest.approx([1, 0, 1 / d], rel=1e-6, abs=1e-9)


def test_gaussian_null_at_its_limits():
    # In two dimensions the angle is uniform, and its cosine has the arcsine law.
    t = np.linspace(-0.99, 0.99, 9)
    np.testing.assert_allclose(similarity.gaussian_null_density(t, 2), stats.arcsine.pdf(t, -1, 2))
    assert similarity.gaussian_null_sd(2) == pytest.approx(stats.arcsine.std(-1, 2))
    # In three dimensions a coordinate of a random unit vector is uniform (Archimedes).
    density = similarity.gaussian_null_density([-1.0, 0.3, 1.0], 3)
    assert density.tolist() == pytest.approx([0.5] * 3)
    assert similarity.gaussian_null_density([-1.5, 1.1], 64).tolist() == [0, 0]
    for function in (similarity.gaussian_null_sd, lambda d: similarity.gaussian_null_density(0, d)):
        with pytest.raises(ValueError, match="d is 1"):
            function(1)


def test_histogram_is_a_density_over_all_cosines():
    values = np.array([-1.0, -0.5, 0.0, 1.0])  # both ends belong to it
    edges, density = similarity.histogram(values, 4)
    assert edges.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert density.tolist() == [0.5, 0.5, 0.5, 0.5]
    edges, density = similarity.histogram([-0.2, 0.2], 4)  # none near the ends
    assert edges.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert density.tolist() == [0, 1, 1, 0]
    for bad in ([1.01], [np.nan], []):
        with pytest.raises(ValueError, match="histogram"):
            similarity.histogram(bad, 4)


def test_a_uniform_model_has_perplexity_v_and_a_certain_one_has_one():
    tokens = np.array([4, 1, 11])
    uniform = perplexity.corpus_perplexity(tokens * np.log(1000), tokens, **SETTINGS)
    assert [uniform.low, uniform.value, uniform.high] == pytest.approx([1000] * 3)
    assert perplexity.sequence_perplexity(tokens * np.log(1000), tokens) == pytest.approx(
        {"mean": 1000, "median": 1000}
    )
    certain = perplexity.corpus_perplexity(np.zeros(3), tokens, **SETTINGS)
    assert certain.as_json() == {"value": 1, "low": 1, "high": 1}


def test_corpus_perplexity_agrees_with_the_probability_of_the_text():
    rng = generator(9)
    logits = rng.normal(size=(12, 20))  # [tokens, symbols]
    chosen = log_softmax(logits, axis=-1)[np.arange(12), rng.integers(20, size=12)]  # [tokens]
    tokens = np.array([5, 0, 7])  # a document without scored tokens does not count
    nll = -np.array([chosen[:5].sum(), 0, chosen[5:].sum()])
    corpus = perplexity.corpus_perplexity(nll, tokens, **SETTINGS)
    assert corpus.value == pytest.approx(np.prod(np.exp(chosen)) ** (-1 / 12))
    assert perplexity.nll_per_token(nll, tokens, **SETTINGS).value == pytest.approx(-chosen.mean())
    own = [np.prod(np.exp(part)) ** (-1 / len(part)) for part in (chosen[:5], chosen[5:])]
    sequence = perplexity.sequence_perplexity(nll, tokens)
    assert sequence == pytest.approx({"mean": np.mean(own), "median": np.median(own)})
    with pytest.raises(ValueError, match="scored"):
        perplexity.sequence_perplexity([0.0], [0])


def distributions(symbols: int):
    elements = st.floats(0, 1, allow_subnormal=False)
    return (
        arrays(np.float64, symbols, elements=elements)
        .filter(lambda weights: weights.sum() > 1e-3)
        .map(lambda weights: weights / weights.sum())
    )


@given(distributions(6))
def test_perplexity_is_two_to_the_bits_and_e_to_the_nats(probabilities):
    bits = perplexity.entropy(probabilities, base=2)
    nats = perplexity.entropy(probabilities)
    assert 2**bits == pytest.approx(np.exp(nats), rel=1e-12)
    assert bits == pytest.approx(stats.entropy(probabilities, base=2), abs=1e-12)


@given(distributions(6))
def test_merging_two_symbols_never_raises_the_entropy(probabilities):
    merged = np.append(probabilities[2:], probabilities[0] + probabilities[1])
    assert perplexity.entropy(merged) <= perplexity.entropy(probabilities) + 1e-12


def test_entropy_limits_and_its_arguments():
    assert np.exp(perplexity.entropy(np.full((2, 50), 0.02))).tolist() == pytest.approx([50, 50])
    assert perplexity.entropy(np.eye(4)[0]) == 0
    for bad in ([0.5, 0.6], [1.5, -0.5]):
        with pytest.raises(ValueError, match="sum 1"):
            perplexity.entropy(bad)


def test_bits_per_byte_of_a_uniform_model_over_bytes_is_eight():
    size = np.array([100, 3])
    estimate = perplexity.bits_per_byte(size * np.log(256), size, **SETTINGS)
    assert [estimate.low, estimate.value, estimate.high] == pytest.approx([8, 8, 8])


def test_share_worse_than_uniform():
    uniform = np.log(np.float32(50257))
    token_nll = np.array([0.1, 12, uniform, 11, np.nextafter(uniform, np.float32(99))], np.float32)
    estimate = perplexity.share_worse_than_uniform(token_nll, [2, 0, 3], 50257, **SETTINGS)
    assert estimate.value == 2 / 5  # rounding of a uniform model's loss is not worse
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    with pytest.raises(ValueError, match="5 losses for 4 tokens"):
        perplexity.share_worse_than_uniform(token_nll, [2, 2], 50257, **SETTINGS)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_delta_is_the_difference_and_the_ratio_its_exponential(seed):
    rng = generator(seed)
    tokens = rng.integers(1, 50, 12)
    intact = rng.exponential(size=12) * tokens
    condition = intact + rng.normal(size=12)
    delta = perplexity.delta_nll(condition, intact, tokens, **SETTINGS)
    parts = [perplexity.nll_per_token(nll, tokens, **SETTINGS) for nll in (condition, intact)]
    assert delta.value == pytest.approx(parts[0].value - parts[1].value)
    ratio = perplexity.perplexity_ratio(condition, intact, tokens, **SETTINGS)
    powers = [perplexity.corpus_perplexity(nll, tokens, **SETTINGS) for nll in (condition, intact)]
    assert ratio.value == pytest.approx(powers[0].value / powers[1].value)
    assert [ratio.low, ratio.high] == pytest.approx(np.exp([delta.low, delta.high]).tolist())


def test_the_same_seed_gives_the_same_bytes():
    sums, lengths = documents_with_effects(generator(10), 300)
    first = perplexity.corpus_perplexity(sums, lengths, **SETTINGS)
    assert first.as_json() == perplexity.corpus_perplexity(sums, lengths, **SETTINGS).as_json()
    other = perplexity.corpus_perplexity(sums, lengths, **{**SETTINGS, "seed": 1})
    assert other.value == first.value and other.low != first.low


def test_moments_of_constant_columns_and_of_known_ones():
    rng = generator(11)
    u, v = rng.normal(size=(2, 30, 4))
    v[:, 3] = 2.0
    columns = [np.ones_like(u), u, v, u * u, v * v, u * v]
    with np.errstate(all="raise"):
        correlations = moments.correlation_of_moments(np.sum(columns, axis=1))
    expected = [np.corrcoef(u[:, place], v[:, place])[0, 1] for place in range(3)]
    assert correlations.tolist() == pytest.approx([*expected, 0])
    # Rounding leaves a constant a variance that is not quite 0, of either sign.
    constant = np.broadcast_to(rng.uniform(1, 2, 90), (7, 90))
    u = rng.normal(size=(7, 90))
    for values, other in ((u, constant), (constant, u)):
        columns = [np.ones_like(u), values, other, values * values, other * other, values * other]
        left = np.mean(columns, axis=1)
        assert (left[3:5] - left[1:3] ** 2).min() < 0
        with np.errstate(all="raise"):
            assert np.abs(moments.correlation_of_moments(left)).max() <= 1
    u = rng.normal(size=(5, 400))
    for sign in (1, -1):
        v = sign * u * rng.uniform(0.1, 9, 400)
        correlations = sign * moments.correlation_of_moments(
            np.sum([np.ones_like(u), u, v, u * u, v * v, u * v], axis=1)
        )
        np.testing.assert_allclose(correlations, 1, rtol=0, atol=1e-12)
        assert correlations.max() == 1, "where rounding passes it, too"


def test_the_share_between_groups_is_the_adjusted_r_squared_of_their_means():
    rng, group = generator(12), np.repeat(np.arange(5), [3, 4, 2, 6, 5])
    y = rng.normal(size=20) + group
    means = moments.sums_by_group(y, group) / np.bincount(group)
    total, within = ((y - y.mean()) ** 2).sum(), ((y - means[group]) ** 2).sum()
    share = moments.share_between(total, total - within, 20, 5)
    assert share == pytest.approx(1 - (within / 15) / (total / 19))  # Of mean squares.


def test_groups_are_summed_in_any_order_of_rows():
    rng, group = generator(13), [7, -2, 7, 30, -2]
    rows = rng.normal(size=(5, 2, 3))
    expected = [rows[1] + rows[4], rows[0] + rows[2], rows[3]]
    np.testing.assert_allclose(moments.sums_by_group(rows, group), expected)


def test_a_softmax_of_large_scores_is_that_of_scipy():
    scores = 1000 + 800 * generator(14).normal(size=(2, 5, 5))
    expected = softmax(scores, axis=-1)
    np.testing.assert_allclose(patterns.softmax(scores.copy(), causal=False), expected, atol=1e-15)
    hidden = np.where(np.tri(5) > 0, scores, -np.inf)
    pattern = patterns.softmax(scores.copy(), causal=True)
    np.testing.assert_allclose(pattern, softmax(hidden, axis=-1), atol=1e-15)
    query, keys = generator(15).normal(size=4), generator(16).normal(size=(6, 4))
    pattern = patterns.query_pattern(query, keys)
    np.testing.assert_allclose(pattern, softmax(keys @ query / 2), atol=1e-15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("large", [1e200, np.inf])
def test_scores_too_large_for_a_number_are_refused_without_a_warning(large):
    vectors = np.full((3, 2), large)
    vectors[1] *= -1
    for call in (
        lambda: patterns.query_pattern(vectors[0], vectors),
        lambda: patterns.query_pattern(np.array([1, -1.0]) * large, vectors),
        lambda: patterns.attention_pattern(vectors, vectors * [1, -1], causal=False),
        lambda: patterns.attention_pattern(vectors, vectors, causal=False),
    ):
        with pytest.raises(ValueError, match=r"^an attention score is not finite$"):
            call()


@pytest.mark.parametrize("shapes", [((4,),) * 2, ((0, 4),) * 2, ((3, 4), (2, 4)), ((3, 0),) * 2])
def test_no_pattern_of_what_are_no_queries_and_keys(shapes):
    message = f"shapes {shapes[0]} and {shapes[1]} are not the same [..., tokens, d_head]"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        patterns.attention_pattern(*map(np.ones, shapes), causal=False)


@pytest.mark.parametrize("kinds", [(np.float16, np.float32), (np.float64, np.float32)])
def test_a_pattern_is_of_the_wider_type_and_of_float32_at_least(kinds):
    queries, keys = (generator(17).normal(size=(4, 3)).astype(kind) for kind in kinds)
    pattern = patterns.attention_pattern(queries, keys, causal=False)
    assert pattern.dtype == np.result_type(np.float32, *kinds)
    expected = softmax(queries.astype(float) @ keys.astype(float).T / np.sqrt(3), axis=-1)
    np.testing.assert_allclose(pattern, expected, rtol=1e-5)
    wide = patterns.attention_pattern(queries.astype(float), keys.astype(float), causal=False)
    np.testing.assert_allclose(wide, expected, rtol=1e-12)


def test_a_bootstrap_of_sums_of_any_shape_is_a_loop_over_draws(monkeypatch):
    rng = generator(18)
    matrices, counts = rng.normal(size=(12, 2, 3)), rng.integers(1, 5, (12, 1)).astype(float)

    def statistic(m, n):  # [resamples, 2, 3], [resamples, 1]
        return np.sort(m, axis=2).max(axis=2) / n

    draws, expected = generator(5), []
    for _ in range(40):
        drawn = draws.integers(12, size=12)
        expected.append(matrices[drawn].sum(axis=0).max(axis=1) / counts[drawn].sum())
    monkeypatch.setattr(bootstrap, "_BLOCK_COUNTS", 30)  # five resamples at a time
    estimate = bootstrap.sums_bootstrap([matrices, counts], statistic, 40, 0.8, 5)
    np.testing.assert_allclose(estimate.value, matrices.sum(axis=0).max(axis=1) / counts.sum())
    bounds = np.quantile(expected, [0.1, 0.9], axis=0)
    np.testing.assert_allclose([estimate.low, estimate.high], bounds, rtol=1e-12)
