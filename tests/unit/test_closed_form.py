"""Masks in closed form against pairs one by one; curves, their R², and placebos."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats
from sklearn.metrics import r2_score

from posenc.metrics import closed_form, mask_placebos, rotary

HEADS, TOKENS, WIDTH = 4, 11, 8
LAYOUTS = ("halves", "interleaved")


def vectors(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def turning(t: float, theta: np.ndarray, layout: str) -> np.ndarray:
    """R(t) as a matrix [WIDTH, WIDTH], block by block."""
    matrix, r = np.eye(WIDTH), len(theta)
    for c, angle in enumerate(t * theta):
        first, second = (c, c + r) if layout == "halves" else (2 * c, 2 * c + 1)
        matrix[first, first] = matrix[second, second] = np.cos(angle)
        matrix[second, first], matrix[first, second] = np.sin(angle), -np.sin(angle)
    return matrix


def added(q: np.ndarray, k: np.ndarray, i: int, j: int, theta: np.ndarray, layout: str) -> float:
    """What rotation adds to the score of one pair, from positions and not from their distance."""
    turned = (turning(i, theta, layout) @ q) @ (turning(j, theta, layout) @ k)
    return (turned - q @ k) / np.sqrt(WIDTH)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("turned", [WIDTH, WIDTH // 2])
def test_exact_for_constant_queries_and_keys(layout, turned):
    """All pairs of a document, whose first token has a key of its own."""
    theta = rotary.frequencies(turned, 50.0)
    query, key, first_key = vectors(3, HEADS, WIDTH)
    distances = np.arange(TOKENS)
    curve = closed_form.rotary_curve(query, key, theta, distances, layout)
    of_first = closed_form.rotary_curve(query, first_key, theta, distances, layout)
    for head in range(HEADS):
        for i in range(TOKENS):
            for j in range(i):
                q, k = query[head], (key if j else first_key)[head]
                bias = curve[head, i - j] if j else of_first[head, i]
                assert bias == pytest.approx(added(q, k, i, j, theta, layout), abs=1e-13)
    assert np.ptp(curve) > 0.3 and np.abs(curve - of_first).max() > 0.3
    np.testing.assert_array_equal(curve[:, 0], 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_keys_after_the_query_have_negative_distances(layout):
    q, k = vectors(2, WIDTH)
    theta = rotary.frequencies(WIDTH, 50.0)
    curve = closed_form.rotary_curve(q, k, theta, [-3, 3], layout)
    expected = [added(q, k, 4, 7, theta, layout), added(q, k, 7, 4, theta, layout)]
    np.testing.assert_allclose(curve, expected, atol=1e-13)


def differences(queries: np.ndarray, keys: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Scores with minus without rotation, [n_heads, tokens, tokens]."""
    at = np.arange(queries.shape[1])
    return rotary.scores(queries, keys, at, theta) - rotary.scores(queries, keys, at, [])


def test_what_is_dropped_is_the_covariance_of_a_pair():
    """Any queries and keys, here each query near the key before it: equation (1)."""
    theta = rotary.frequencies(WIDTH, 50.0)
    keys = vectors(1, 40, WIDTH) + 1
    queries = np.roll(keys, 1, axis=1) + 0.3 * vectors(1, 40, WIDTH, seed=1) + 0.5
    seen = np.tri(40)
    sums = differences(queries, keys, theta) * seen
    measured = closed_form.by_distance(sums, seen, causal=True, first=False)[0][0, 0]
    for distance in range(30):
        q, k = queries[0, distance:], keys[0, : 40 - distance]  # [pairs, d_head] each
        kept = closed_form.rotary_curve(q.mean(axis=0), k.mean(axis=0), theta, [distance])[0]
        covariance = (k - k.mean(axis=0)).T @ (q - q.mean(axis=0)) / len(q)
        change = turning(-distance, theta, "halves") - np.eye(WIDTH)
        dropped = np.trace(change @ covariance) / np.sqrt(WIDTH)
        assert measured[distance] == pytest.approx(kept + dropped, abs=1e-12)
        assert distance != 1 or abs(dropped) > 0.05


def test_the_mean_difference_of_independent_queries_and_keys():
    """At one distance pairs are independent of each other too: five standard errors."""
    theta, documents = rotary.frequencies(WIDTH, 50.0), 200
    query, key = 3 * vectors(2, HEADS, 1, WIDTH)
    seen = np.tri(TOKENS)
    changes = np.array([
        differences(
            query + vectors(HEADS, TOKENS, WIDTH, seed=2 * document + 10),
            key + vectors(HEADS, TOKENS, WIDTH, seed=2 * document + 11), theta,
        )
        for document in range(documents)
    ])  # [documents, n_heads, tokens, tokens]  # fmt: skip
    weights = documents * seen
    measured, _ = closed_form.by_distance(changes.sum(axis=0) * seen, weights, causal=True)
    curve = closed_form.rotary_curve(query[:, 0], key[:, 0], theta, np.arange(TOKENS))
    error = np.array(
        [
            [np.diagonal(changes[:, h], -d, 1, 2)[:, 1:].std() for d in range(1, TOKENS - 1)]
            for h in range(HEADS)
        ]
    ) / np.sqrt(documents * np.arange(TOKENS - 2, 0, -1))
    apart = np.abs(measured[:, 0, 1:-1] - curve[:, 1:-1]) / error
    assert apart.max() < 5 and 0.4 < apart.mean() < 1.2  # E|N(0, 1)| = 0.8
    assert (np.abs(curve[:, 1:]).max(axis=1) > 10 * error.max(axis=1)).all()
    assert (closed_form.r_squared(curve, measured[:, 0]) > 0.95).all()


def test_a_frequency_prefers_the_distance_of_its_phase():
    theta = np.array([0.01])
    key = np.array([2.0, 0.0])
    query = rotary.rotate(key[None] / 2, [-70.0], theta)[0]  # the key is 0.7 radians ahead of it
    w = closed_form.series(query, key, 1)
    assert abs(w[0]) == pytest.approx(2 / np.sqrt(2)) and np.angle(w[0]) == pytest.approx(0.7)
    curve = closed_form.rotary_curve(query, key, theta, np.arange(200))
    assert curve.argmax() == 70
    assert curve[70] == pytest.approx(abs(w[0]) * (1 - np.cos(0.7)))


def absolute_parts() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position parts of queries and keys, and contents of which the first is unlike the others."""
    u, v = vectors(2, HEADS, TOKENS, WIDTH)
    q, k = np.repeat(vectors(2, HEADS, 1, WIDTH, seed=1), TOKENS, axis=2)
    k[:, 0] += 1
    return u, v, q, k


@pytest.mark.parametrize("row_term", [True, False])
def test_learned_positions_pair_by_pair(row_term):
    u, v, q, k = absolute_parts()
    bias = closed_form.absolute_bias(u, v, q, k, row_term=row_term)
    for h, m, n in np.ndindex(HEADS, TOKENS, TOKENS):
        with_position = (q[h, m] + u[h, m]) @ (k[h, n] + v[h, n])
        row = 0.0 if row_term else u[h, m] @ sum(k[h]) / TOKENS
        expected = (with_position - q[h, m] @ k[h, n] - row) / np.sqrt(WIDTH)
        assert bias[h, m, n] == pytest.approx(expected, abs=1e-12)


def test_softmax_does_not_see_the_row_term():
    u, v, q, k = absolute_parts()
    content = q @ np.swapaxes(k, -1, -2)
    patterns = [
        special.softmax(content + closed_form.absolute_bias(u, v, q, k, row_term=row), axis=-1)
        for row in (True, False)
    ]
    np.testing.assert_allclose(*patterns, atol=1e-12)
    # But b(δ) does: where keys have no position, there is nothing for a mask to say.
    nothing, common = np.zeros_like(v), k[:, 1:2]
    seen = np.tri(TOKENS)
    kept, left = (
        closed_form.by_distance(
            closed_form.absolute_bias(u, nothing, q[:, 1:2], common, row_term=row) * seen,
            seen,
            causal=True,
            first=False,
        )[0]
        for row in (True, False)
    )
    assert np.ptp(kept) > 0.1 and np.ptp(left) == 0


def test_the_mean_difference_of_independent_contents():
    """Learned positions, many draws of content: the mask is the mean over them of each pair."""
    u, v, q, k = absolute_parts()
    drawn = np.array([
        [vectors(HEADS, TOKENS, WIDTH, seed=seed), vectors(HEADS, TOKENS, WIDTH, seed=seed + 5000)]
        for seed in range(1000)
    ])  # [draws, 2, n_heads, tokens, d_head]  # fmt: skip
    q0, k0 = q + drawn[:, 0], k + drawn[:, 1]
    added = (q0 + u) @ np.swapaxes(k0 + v, -1, -2) - q0 @ np.swapaxes(k0, -1, -2)
    added = added / np.sqrt(WIDTH)  # [draws, n_heads, tokens, tokens]
    mask = closed_form.absolute_bias(u, v, q, k)
    apart = np.abs(added.mean(axis=0) - mask) / (added.std(axis=0) / np.sqrt(1000))
    assert apart.max() < 5.5 and 0.6 < apart.mean() < 1.0


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_curves_pair_by_pair(causal, first):
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=(2, 6, 6)), rng.uniform(0.5, 2, size=(2, 6, 6))
    weights *= rng.random((2, 6, 6)) < 0.7
    if causal:
        weights *= np.tri(6)
    relative, of_first = closed_form.by_distance(
        values * weights, weights, causal=causal, first=first
    )
    assert relative.shape == (2, 1 if causal else 2, 6)
    for h, side, distance in np.ndindex(relative.shape):
        pairs = [
            (i, j)
            for i, j in np.ndindex(6, 6)
            if (j - i if side else i - j) == distance and not (first and j == 0)
        ]
        total = sum(weights[h, i, j] for i, j in pairs)
        mean = (
            sum(weights[h, i, j] * values[h, i, j] for i, j in pairs) / total if total else np.nan
        )
        assert relative[h, side, distance] == pytest.approx(mean, nan_ok=True)
    np.testing.assert_allclose(of_first, np.where(weights > 0, values, np.nan)[:, :, 0])


def test_r_squared():
    rng = np.random.default_rng(4)
    measured = rng.normal(size=(3, 20))
    predicted, weights = measured + rng.normal(size=(3, 20)), rng.random(20)
    expected = [
        r2_score(y, x, sample_weight=weights) for y, x in zip(measured, predicted, strict=True)
    ]
    np.testing.assert_allclose(closed_form.r_squared(predicted, measured, weights), expected)
    np.testing.assert_array_equal(closed_form.r_squared(measured, measured), 1)
    mean = measured.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(closed_form.r_squared(mean, measured), 0, atol=1e-12)
    assert (closed_form.r_squared(measured + 9, measured) < -10).all()  # nothing is fitted
    longer = np.pad(measured, ((0, 0), (0, 2)), constant_values=np.nan)
    np.testing.assert_allclose(
        closed_form.r_squared(np.pad(predicted, ((0, 0), (0, 2))), longer),
        closed_form.r_squared(predicted, measured),
    )
    np.testing.assert_array_equal(closed_form.r_squared(longer, longer), 1)
    constant = np.full(3, 0.1)  # which rounding puts beside its own mean
    assert constant.mean() != 0.1 and np.isnan(closed_form.r_squared([0.1, 0.2, 0.3], constant))


def numbered(n_layers: int, n_heads: int) -> np.ndarray:
    """Curves [n_layers, n_heads, 3] that say whose they are: layer, head and number."""
    number = np.arange(n_layers * n_heads).reshape(n_layers, n_heads)
    return np.stack([*np.indices((n_layers, n_heads)), number], axis=-1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("within", [True, False])
def test_shuffled_curves(within, seed):
    own = numbered(5, 4)
    shuffle = mask_placebos.shuffled_within_layers if within else mask_placebos.shuffled_over_heads
    mixed = shuffle(own, seed)
    assert sorted(mixed[..., 2].flat) == list(range(20))  # each once
    assert (mixed[..., 2] != own[..., 2]).all()  # none its own
    assert (mixed[..., 0] == own[..., 0]).all() == within
    np.testing.assert_array_equal(mixed[..., 2], own[mixed[..., 0], mixed[..., 1], 2])  # whole
    np.testing.assert_array_equal(shuffle(own[..., 2], seed), mixed[..., 2])  # alike by the seed
    assert (shuffle(own, seed + 1) != mixed).any()


def test_a_shuffle_needs_two_and_a_layers_curve_is_its_mean():
    with pytest.raises(ValueError, match="one alone"):
        mask_placebos.shuffled_within_layers(np.ones((2, 1, 3)), 0)
    curves = vectors(3, 4, 5)
    means = mask_placebos.one_per_layer(curves)
    for layer, head in np.ndindex(3, 4):
        np.testing.assert_allclose(means[layer, head], sum(curves[layer]) / 4)


def test_hashed_distances_know_no_order():
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 50_000, 60)
    ids[[7, 30]] = ids[3]
    distances = mask_placebos.hashed_distances(ids, 32, seed=1)
    order = rng.permutation(60)
    again = mask_placebos.hashed_distances(ids[order], 32, seed=1)
    np.testing.assert_array_equal(again, distances[np.ix_(order, order)])
    np.testing.assert_array_equal(distances, distances.T)
    np.testing.assert_array_equal(distances[7], distances[3])  # the same token
    distance = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
    assert abs(np.corrcoef(distances.flat, distance.flat)[0, 1]) < 0.08
    other = mask_placebos.hashed_distances(ids, 32, seed=2)
    assert abs(np.corrcoef(distances.flat, other.flat)[0, 1]) < 0.08
    sides = mask_placebos.hashed_sides(ids, seed=1)
    np.testing.assert_array_equal(sides, sides.T)
    assert abs(sides.mean() - 0.5) < 0.05
    assert abs(np.corrcoef(distances.flat, sides.flat)[0, 1]) < 0.08


def test_hashed_distances_are_as_frequent_as_real_ones():
    """Neighbouring ids, the worst case for a hash; the counts of real distances of 20 tokens."""
    distances = mask_placebos.hashed_distances(np.arange(400), 20, seed=0)[np.triu_indices(400)]
    real = np.subtract.outer(np.arange(20), np.arange(20))
    expected = np.bincount(real[real >= 0]) / (real >= 0).sum() * len(distances)
    assert stats.chisquare(np.bincount(distances, minlength=20), expected).pvalue > 0.001


def test_the_hash_is_splitmix():
    """First outputs of the published generator for two seeds, as its users print them."""
    seeds = np.array([0, 1234567], np.uint64)
    assert mask_placebos._mixed(seeds).tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]


@pytest.mark.parametrize("sides", [1, 2])
def test_a_mask_by_distance_pair_by_pair(sides):
    rng = np.random.default_rng(21)
    relative, first = rng.normal(size=(3, sides, 7)), rng.normal(size=(3, 7))
    bias = closed_form.by_pair(relative, first, 5)
    assert bias.shape == (3, 5, 5)
    for head, i, j in np.ndindex(3, 5, 5):
        if j == 0:
            expected = first[head, i]
        elif j <= i:
            expected = relative[head, 0, i - j]
        else:
            expected = relative[head, 1, j - i] if sides == 2 else 0
        assert bias[head, i, j] == expected
