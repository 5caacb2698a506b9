"""Rotation of queries and keys: the library's three layouts, and identities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

from posenc.metrics import rotary

HEADS, TOKENS, WIDTH = 4, 9, 8
LAYOUTS = ("halves", "interleaved")
THETA = rotary.frequencies(WIDTH, base=100.0)


def vectors(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def library(module, config) -> np.ndarray:
    """Rotated queries [n_heads, tokens, d_head] of a library whose pairs are halves."""
    name = "LlamaRotaryEmbedding" if module is modeling_llama else "GPTNeoXRotaryEmbedding"
    query = torch.from_numpy(vectors(1, HEADS, TOKENS, WIDTH)).float()
    cosine, sine = getattr(module, name)(config)(query, torch.arange(TOKENS)[None])
    return module.apply_rotary_pos_emb(query, query, cosine, sine)[0][0].numpy()


def ours(frequencies, layout="halves", scale=1.0) -> np.ndarray:
    """The same queries, rotated here."""
    query = vectors(HEADS, TOKENS, WIDTH).astype(np.float32)
    return rotary.rotate(query, np.arange(TOKENS) * scale, frequencies, layout)


def llama(**scaling) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        max_position_embeddings=16,
        rope_parameters={"rope_type": "default", "rope_theta": 1e5, **scaling},
    )


def test_halves_are_llamas():
    theirs = library(modeling_llama, llama())
    np.testing.assert_allclose(ours(rotary.frequencies(WIDTH, 1e5)), theirs, atol=1e-6)


def test_interpolated_positions_are_the_librarys_linear_scaling():
    theirs = library(modeling_llama, llama(rope_type="linear", factor=4.0))
    np.testing.assert_allclose(ours(rotary.frequencies(WIDTH, 1e5), scale=1 / 4), theirs, atol=1e-6)


def test_partial_rotation_is_gpt_neoxs():
    config = GPTNeoXConfig(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, max_position_embeddings=16,
        rope_parameters={
            "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5,
        },
    )  # fmt: skip
    theirs = library(modeling_gpt_neox, config)
    np.testing.assert_allclose(ours(rotary.frequencies(WIDTH // 2)), theirs, atol=1e-6)


def test_interleaved_pairs_are_gpt_js():
    query = torch.from_numpy(vectors(HEADS, TOKENS, WIDTH)).float().transpose(0, 1)[None]
    sine, cosine = modeling_gptj.create_sinusoidal_positions(TOKENS, WIDTH)[None].chunk(2, -1)
    theirs = modeling_gptj.apply_rotary_pos_emb(query, sine, cosine)[0].transpose(0, 1).numpy()
    np.testing.assert_allclose(ours(rotary.frequencies(WIDTH), "interleaved"), theirs, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_is_a_rotation(layout):
    """R(a)ᵀ R(b) = R(b - a), and norms stay."""
    a, b = np.array([2.5]), np.array([7.0])
    turns = [rotary.rotate(np.eye(WIDTH)[:, None], at, THETA, layout)[:, 0].T for at in (a, b)]
    expected = rotary.rotate(np.eye(WIDTH)[:, None], b - a, THETA, layout)[:, 0].T
    np.testing.assert_allclose(turns[0].T @ turns[1], expected, atol=1e-14)
    x = vectors(HEADS, TOKENS, WIDTH)
    turned = rotary.rotate(x, np.arange(TOKENS), THETA, layout)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1))
    assert np.abs(turned - x).max() > 0.5


def plain(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Scores without rotation, pair by pair; query heads 0 and 1 share key head 0, and so on."""
    group = len(queries) // len(keys)
    return np.array(
        [[[q @ k for k in keys[h // group]] for q in queries[h]] for h in range(len(queries))]
    ) / np.sqrt(WIDTH)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_under_interventions(layout):
    queries, keys = vectors(HEADS, TOKENS, WIDTH), vectors(2, TOKENS, WIDTH, seed=1)
    positions = np.random.default_rng(2).permutation(TOKENS) * 1.5

    def scores(positions, frequencies=THETA, **options):
        return rotary.scores(queries, keys, positions, frequencies, layout=layout, **options)

    intact = scores(positions)
    np.testing.assert_allclose(scores(positions + 17.25), intact, atol=1e-13)
    np.testing.assert_array_equal(scores(positions, rotary.banded(THETA, slice(None))), intact)
    nothing = plain(queries, keys)
    assert np.abs(intact - nothing).max() > 0.5
    for none in (
        scores(np.full(TOKENS, 3.0)),
        scores(positions, rotary.banded(THETA, [])),
        scores(positions, clip=0),
    ):
        np.testing.assert_allclose(none, nothing, atol=1e-13)
    # Bands share the features out among them.
    high, low = (scores(positions, rotary.banded(THETA, kept)) for kept in (slice(2), [2, 3]))
    np.testing.assert_allclose(high + low - nothing, intact, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_clipped_distances_pair_by_pair(layout):
    queries, keys = vectors(2, TOKENS, WIDTH), vectors(2, TOKENS, WIDTH, seed=1)
    places = 1.5 * np.arange(TOKENS)
    clipped = rotary.scores(queries, keys, places, THETA, layout=layout, clip=4)
    for i, j in np.ndindex(TOKENS, TOKENS):
        at = np.array([np.clip(places[j] - places[i], -4, 4)])
        key = rotary.rotate(keys[:, [j]], at, THETA, layout)[:, 0]  # [n_heads, d_head]
        expected = np.sum(queries[:, i] * key, axis=-1) / np.sqrt(WIDTH)
        np.testing.assert_allclose(clipped[:, i, j], expected, atol=1e-13)
    far = rotary.scores(queries, keys, places, THETA, layout=layout, clip=12)
    np.testing.assert_array_equal(far, rotary.scores(queries, keys, places, THETA, layout=layout))


def test_the_ntk_aware_base_stretches_the_lowest_frequency_alone():
    intact = rotary.frequencies(64, 1e4)
    stretched = rotary.frequencies(64, rotary.ntk_base(1e4, 4, 64))
    assert stretched[0] == intact[0] == 1
    assert stretched[-1] == pytest.approx(intact[-1] / 4, rel=1e-12)
    assert (np.diff(stretched / intact) < 0).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="even"):
        rotary.frequencies(7)
    with pytest.raises(ValueError, match="turn 10 features, but there are 8"):
        rotary.rotate(np.ones((1, 8)), [0], np.ones(5))
    with pytest.raises(ValueError, match="neither"):
        rotary.rotate(np.ones((1, 8)), [0], THETA, "thirds")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="evenly"):
        rotary.for_query_heads(np.ones((2, 3)), 5)
