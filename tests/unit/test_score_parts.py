"""Scores as content, mask and interaction: their sum, their definition, shares of variance."""

from __future__ import annotations

import numpy as np
import pytest

from posenc.metrics import rotary
from posenc.metrics.closed_form import rotary_curve
from posenc.metrics.patterns import softmax
from posenc.metrics.score_parts import moments, score_parts, shares, temperature

HEADS, TOKENS, WIDTH = 3, 8, 6
THETA = rotary.frequencies(WIDTH, 30.0)
PLACES = np.arange(TOKENS)
SEEN = np.tri(TOKENS)


def vectors(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def mask_of(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The mask in closed form of all pairs, [n_heads, tokens, tokens]."""
    distance = PLACES[:, None] - PLACES
    return rotary_curve(query, key, THETA, distance.ravel()).reshape(-1, TOKENS, TOKENS)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_parts_by_deviations_from_the_means(layout):
    queries, keys = vectors(HEADS, TOKENS, WIDTH) + 1, vectors(1, TOKENS, WIDTH, seed=1) - 1
    query, key = queries.mean(axis=1), keys.mean(axis=1).repeat(HEADS, axis=0)
    distance = PLACES[:, None] - PLACES
    mask = rotary_curve(query, key, THETA, distance.ravel(), layout).reshape(-1, TOKENS, TOKENS)
    parts = score_parts(queries, keys, PLACES, THETA, mask, layout)
    intact = rotary.scores(queries, keys, PLACES, THETA, layout=layout)
    np.testing.assert_allclose(parts.sum(axis=0), intact, atol=1e-13)
    for h, i, j in np.ndindex(HEADS, TOKENS, TOKENS):
        q, k = queries[h, i] - query[h], keys[0, j] - key[h]
        turned = [rotary.rotate(vector[None], [j - i], THETA, layout)[0] for vector in (k, key[h])]
        by_content = (query[h] + q) @ (turned[0] - k) + q @ (turned[1] - key[h])
        expected = [queries[h, i] @ keys[0, j], by_content]
        np.testing.assert_allclose(parts[::2, h, i, j] * np.sqrt(WIDTH), expected, atol=1e-12)


def test_no_interaction_where_nothing_varies():
    query, key = vectors(2, HEADS, WIDTH)
    queries, keys = (vector[:, None].repeat(TOKENS, axis=1) for vector in (query, key))
    content, mask, interaction = score_parts(queries, keys, PLACES, THETA, mask_of(query, key))
    np.testing.assert_allclose(interaction, 0, atol=1e-13)
    assert np.ptp(content, axis=(1, 2)).max() < 1e-13 < np.ptp(mask, axis=(1, 2)).min()
    alone = shares(moments([content, mask, interaction], SEEN))[:, [0, 1, 2], [0, 1, 2]]
    np.testing.assert_allclose(alone, np.tile([0.0, 1.0, 0.0], (HEADS, 1)), atol=1e-12)


@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("within_query", [True, False])
def test_shares_pair_by_pair(attention, within_query):
    parts = vectors(3, HEADS, TOKENS, TOKENS, seed=2) + 4
    parts[2] -= 0.7 * parts[0]
    weights = softmax(parts.sum(axis=0), causal=True) if attention else SEEN
    by_head = shares(moments(parts, weights, within_query=within_query))
    weights = np.broadcast_to(weights, parts.shape[1:])
    for h in range(HEADS):
        w = weights[h]
        if within_query:
            rows = [
                [np.average(part[i], weights=w[i]) for i in range(TOKENS)] for part in parts[:, h]
            ]
            centred = parts[:, h] - np.array(rows)[:, :, None]
        else:
            centred = parts[:, h]
        covariance = np.cov(centred.reshape(3, -1), aweights=w.ravel(), ddof=0)
        whole = np.cov(centred.sum(axis=0).ravel(), aweights=w.ravel(), ddof=0)
        np.testing.assert_allclose(by_head[h], covariance / whole, atol=1e-10)
    np.testing.assert_allclose(by_head.sum(axis=(1, 2)), 1)
    assert (np.trace(by_head, axis1=1, axis2=2) > 1.1).all()  # parts that work against each other


def test_documents_add_up_and_hidden_pairs_do_not_count():
    first, second = vectors(2, 3, HEADS, TOKENS, TOKENS)
    together = np.concatenate([first, second], axis=-1)
    weights = np.random.default_rng(1).random((HEADS, TOKENS, 2 * TOKENS))
    added = moments(first, weights[..., :TOKENS]) + moments(second, weights[..., TOKENS:])
    np.testing.assert_allclose(added, moments(together, weights))
    spoilt = np.where(SEEN > 0, first, 1e6)
    for within_query in (True, False):
        np.testing.assert_allclose(
            shares(moments(spoilt, SEEN, within_query=within_query)),
            shares(moments(first, SEEN, within_query=within_query)),
        )
    assert np.isnan(shares(moments(np.ones_like(first), SEEN))).all()


def test_temperature_is_that_of_least_squares():
    """A head whose rotation halves its content; and NumPy's own least squares of any parts."""
    content, mask, _ = parts = vectors(3, HEADS, TOKENS, TOKENS, seed=3)
    halved = np.stack([content, mask, -content / 2])
    np.testing.assert_allclose(temperature(moments(halved, SEEN)), 2)
    temperatures = temperature(moments(parts, SEEN))
    for h in range(HEADS):
        seen = SEEN > 0
        design = np.stack([content[h][seen], np.ones(seen.sum())], axis=1)
        rest = (parts.sum(axis=0) - mask)[h][seen]
        slope = np.linalg.lstsq(design, rest, rcond=None)[0][0]
        assert temperatures[h] == pytest.approx(1 / slope)
