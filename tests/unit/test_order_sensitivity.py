"""Words in another order, and the score of how much a classifier depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from posenc.metrics.order_sensitivity import (
    changed_predictions,
    excerpt,
    exchanged_neighbours,
    order_sensitivity,
    shuffled_words,
    token_words,
)
from posenc.tokens.tokenize import tokenize, train_bpe

from .small_models import word_pieces

some_words = st.lists(st.integers(1, 4), min_size=1, max_size=30)
"""How many tokens each word has."""


def word_numbers(sizes: list[int]) -> np.ndarray:
    """Words of the tokens of a document with a special token at either end."""
    inner = np.repeat(np.arange(len(sizes)), sizes)
    return np.concatenate([[-1], inner, [-1]])


def groups_of(ids: np.ndarray, words: np.ndarray) -> list[tuple[int, ...]]:
    """Tokens of each word, in order."""
    return [tuple(ids[words == word]) for word in range(words.max() + 1)]


@given(sizes=some_words, swaps=st.integers(1, 9), seed=st.integers(0, 99))
def test_exchanging_neighbours_moves_whole_words_and_keeps_all_tokens(sizes, swaps, seed):
    words = word_numbers(sizes)
    ids = np.arange(100, 100 + len(words))  # all tokens differ
    order = exchanged_neighbours(ids, words, swaps, np.random.default_rng(seed))
    again = exchanged_neighbours(ids, words, swaps, np.random.default_rng(seed))
    np.testing.assert_array_equal(order, again)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(ids)))
    assert order[0] == 0 and order[-1] == len(ids) - 1
    # Word by word: the new sequence of words, each with its tokens in their order.
    sequence, before = words[order][1:-1], groups_of(ids, words)
    new = [int(word) for n, word in enumerate(sequence) if n == 0 or sequence[n - 1] != word]
    assert sorted(new) == list(range(len(sizes)))
    np.testing.assert_array_equal(ids[order][1:-1], np.concatenate([before[w] for w in new]))
    moved = [(place, word) for place, word in enumerate(new) if place != word]
    assert all(abs(place - word) == 1 for place, word in moved)
    pairs = len(moved) // 2
    assert min(1, len(sizes) - 1) <= pairs <= min(swaps, len(sizes) // 2)
    # Pairs drawn one by one leave at most every third word in no pair.
    assert pairs == swaps or pairs >= (len(sizes) - 1) // 3


@given(sizes=some_words, seed=st.integers(0, 99))
def test_shuffling_moves_whole_words_and_keeps_all_tokens(sizes, seed):
    words = word_numbers(sizes)
    order = shuffled_words(words, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(order), np.arange(len(words)))
    assert order[0] == 0 and order[-1] == len(words) - 1
    for word in range(len(sizes)):
        places = np.flatnonzero(words[order] == word)
        np.testing.assert_array_equal(np.diff(places), 1)
        assert np.all(np.diff(order[places]) == 1)


def test_equal_neighbours_are_no_pair():
    ids, words = np.array([7, 7, 7, 8]), np.arange(4)
    for seed in range(9):
        order = exchanged_neighbours(ids, words, 3, np.random.default_rng(seed))
        assert ids[order].tolist() == [7, 7, 8, 7]
    order = exchanged_neighbours(ids[:3], words[:3], 1, np.random.default_rng(0))
    assert order.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["word pieces", "byte-level"])
def test_tokens_are_told_their_words(kind):
    text = "  the film, was\n\nnever slowly  clever!"
    if kind == "word pieces":
        tokenizer, is_decoder = word_pieces(), False
    else:
        tokenizer, is_decoder = train_bpe([text] * 3, 300), True
    table = tokenize(tokenizer, ["0"], [text], None, is_decoder)
    columns = (table[name][0].as_py() for name in ("starts", "ends", "special"))
    starts, ends, special = columns
    words = token_words(text, starts, ends, special)
    assert (words == -1).tolist() == special
    for number, word in enumerate(text.split()):
        spans = [(starts[n], ends[n]) for n in np.flatnonzero(words == number)]
        covered = text[min(s for s, _ in spans) : max(e for _, e in spans)]
        assert covered.strip() == word
    assert words.max() == len(text.split()) - 1
    assert np.all(np.diff(words[words >= 0]) >= 0)


@given(
    special=st.lists(st.booleans(), min_size=1, max_size=20),
    room=st.integers(1, 25),
    part=st.sampled_from(["beginning", "end"]),
)
def test_an_excerpt_has_the_special_tokens_and_neighbours(special, room, part):
    tokens = sum(special) + room
    kept = excerpt(special, tokens, part)
    assert np.all(np.diff(kept) > 0) and len(kept) == min(tokens, len(special))
    inner = [place for place, flag in enumerate(special) if not flag]
    chosen = [place for place in kept if not special[place]]
    assert set(np.flatnonzero(special)) <= set(kept)
    assert chosen == (inner[:room] if part == "beginning" else inner[-room:])


tables = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30)


@settings(max_examples=50)
@given(rows=tables)
def test_sensitivity_is_one_minus_cohen_s_kappa(rows):
    labels, before, after = np.array(rows).T
    counts = changed_predictions(labels, before, after)
    assert counts["correct"] == sum(before == labels) and counts["documents"] == len(rows)
    assert counts["correct_shuffled"] == sum(after == labels)
    score = order_sensitivity(
        *(counts[name] for name in ("documents", "positive", "positive_shuffled", "changed"))
    )
    if (np.all(before) and np.all(after)) or not (np.any(before) or np.any(after)):
        assert score is None
    else:
        assert score == pytest.approx(1 - cohen_kappa_score(before, after, labels=[False, True]))


def test_sensitivity_of_known_classifiers():
    generator = np.random.default_rng(0)
    before = generator.random(4000) < 0.3
    unrelated = generator.random(4000) < 0.6
    for after, expected, within in (
        (before, 0.0, 0.0),
        (unrelated, 1.0, 0.06),
        (np.ones(4000, bool), 1.0, 1e-12),
    ):
        counts = changed_predictions(before, before, after)
        del counts["correct"], counts["correct_shuffled"]
        assert order_sensitivity(**counts) == pytest.approx(expected, abs=within)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: token_words("a", [0], [1], [0, 0]), "differ"),
        (lambda: exchanged_neighbours([1, 2], [0, 1], 0, np.random.default_rng(0)), "swaps is 0"),
        (lambda: excerpt([True, True], 2, "end"), "special"),
        (lambda: changed_predictions([], [], []), "differ"),
        (lambda: order_sensitivity(10, 5, 3, 1), "cannot lie"),
        (lambda: order_sensitivity(10, 5, 5, 11), "cannot lie"),
        (lambda: order_sensitivity(10, 5, 5, 3), "cannot lie"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
