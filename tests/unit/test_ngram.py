"""Reference levels of a language model, against hand counts and a dictionary of n-grams."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction as F

import numpy as np
import pytest

from posenc.metrics import ngram

# Begin token 0; token 4 is never seen. Counted by hand below.
TOY = [[0, 1, 2, 1], [0, 1, 2, 2, 3]]
TOY_VOCABULARY = 5


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def flat(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    tokens = [token for document in documents for token in document]
    return np.array(tokens, dtype=np.int64), np.array([len(document) for document in documents])


def random_documents(rng, documents: int, vocabulary_size: int, longest: int = 30):
    """Documents of a skewed vocabulary that begin with 0; its last two symbols never occur."""
    weights = 1 / np.arange(1, vocabulary_size - 2)  # [vocabulary - 3]
    weights /= weights.sum()
    return [
        [0, *(1 + rng.choice(vocabulary_size - 3, rng.integers(0, longest), p=weights)).tolist()]
        for _ in range(documents)
    ]


class Dictionaries:
    """Interpolated Kneser-Ney from the formula, one n-gram at a time."""

    def __init__(self, documents: list[list[int]], vocabulary_size: int, order: int) -> None:
        self.vocabulary_size, self.order = vocabulary_size, order
        self.count = {order: Counter()}
        before, begins = defaultdict(set), Counter()
        for document in documents:
            for n in range(1, order + 1):
                for start in range(len(document) - n + 1):
                    gram = tuple(document[start : start + n])
                    if n == order:
                        self.count[order][gram] += 1
                    elif start > 0:
                        before[gram].add(document[start - 1])
                    elif n > 1:
                        begins[gram] += 1
        for n in range(1, order):
            grams = {gram for gram in {*before, *begins} if len(gram) == n}
            self.count[n] = {gram: len(before[gram]) + begins[gram] for gram in grams}
        self.discount = {}
        for n, counts in self.count.items():
            once = sum(count == 1 for count in counts.values())
            twice = sum(count == 2 for count in counts.values())
            self.discount[n] = once / (once + 2 * twice) if once else 0.5

    def probability(self, token: int, context: tuple[int, ...]) -> float:
        n = len(context) + 1
        lower = self.probability(token, context[1:]) if context else 1 / self.vocabulary_size
        followers = {g[-1]: c for g, c in self.count[n].items() if g[:-1] == context}
        if not followers:
            return lower
        total, discount = sum(followers.values()), self.discount[n]
        own = max(followers.get(token, 0) - discount, 0) / total
        return own + discount * len(followers) / total * lower

    def nll(self, document: list[int]) -> list[float]:
        return [
            -math.log(self.probability(token, tuple(document[max(0, i - self.order + 1) : i])))
            for i, token in enumerate(document)
            if i > 0
        ]


def test_a_uniform_guess_costs_the_logarithm_of_the_vocabulary():
    assert ngram.uniform_nll(8) == pytest.approx(3 * math.log(2), abs=1e-15)
    with pytest.raises(ValueError, match="no distribution"):
        ngram.uniform_nll(0)


def test_unigram_by_hand():
    # Seven predicted tokens (the two begin tokens are not): 1 three times, 2 three times, 3 once.
    # With one added to each of five symbols, the denominator is 12.
    unigram = ngram.Unigram(*flat(TOY), TOY_VOCABULARY)
    expected = [1 / 12, 4 / 12, 4 / 12, 2 / 12, 1 / 12]
    np.testing.assert_allclose(unigram.probabilities([2]), expected, rtol=1e-15)
    nll = unigram.token_nll(*flat([[4, 0], [1], [0, 3, 1]]))
    np.testing.assert_allclose(nll, -np.log([1 / 12, 2 / 12, 4 / 12]), rtol=1e-14)


def test_bigram_by_hand():
    # Bigrams: 01 twice, 12 twice, 21, 22 and 23 once. n1 = 3, n2 = 2, D = 3 / (3 + 4) = 3/7.
    # Different tokens before: 1 has {0, 2}, 2 has {1, 2}, 3 has {2}. n1 = 1, n2 = 2, D = 1/5.
    # Lowest level: three types of five give away 3 · 1/5 of 5, that is 3/25, or 3/125 a symbol.
    # p(1) = p(2) = (2 - 1/5) / 5 + 3/125 = 48/125; p(3) = (1 - 1/5) / 5 + 3/125 = 23/125.
    bigram = ngram.KneserNey(*flat(TOY), TOY_VOCABULARY, order=2)
    np.testing.assert_allclose(bigram.discounts, [1 / 5, 3 / 7], rtol=1e-15)
    lowest = [F(3, 125), F(48, 125), F(48, 125), F(23, 125), F(3, 125)]
    np.testing.assert_allclose(bigram.probabilities(), [float(p) for p in lowest], rtol=1e-14)
    # After 2: 1, 2 and 3 once each, a total of 3; each keeps (1 - 3/7) / 3 = 4/21, and 3/7 is left.
    kept = [0, F(4, 21), F(4, 21), F(4, 21), 0]
    after_2 = [k + F(3, 7) * p for k, p in zip(kept, lowest, strict=True)]
    np.testing.assert_allclose(bigram.probabilities([2]), [float(p) for p in after_2], rtol=1e-14)
    # After 1: 2 twice, which keeps (2 - 3/7) / 2 = 11/14, and 3/14 is left.
    expected = float(F(11, 14) + F(3, 14) * F(48, 125))
    assert bigram.probabilities([1])[2] == pytest.approx(expected, rel=1e-14)
    # Nothing was seen after 3 and 4.
    np.testing.assert_array_equal(bigram.probabilities([3]), bigram.probabilities())
    np.testing.assert_array_equal(bigram.probabilities([4]), bigram.probabilities())


def test_trigram_by_hand():
    # Trigrams: 012 twice; 121, 122 and 223 once. n1 = 3, n2 = 1, D = 3/5.
    # Tokens before a bigram: 12 has {0}, 21 has {1}, 22 has {1}, 23 has {2}; two documents begin
    # with 01. So four bigrams have the count 1 and one has 2: D = 4 / (4 + 2) = 2/3.
    # The lowest level is that of the bigram model.
    trigram = ngram.KneserNey(*flat(TOY), TOY_VOCABULARY, order=3)
    np.testing.assert_allclose(trigram.discounts, [1 / 5, 2 / 3, 3 / 5], rtol=1e-15)
    # p(1 | 2) = (1 - 2/3) / 3 + 2/3 · 48/125, as 2 is followed by three bigrams of the count 1;
    # p(1 | 1 2) = (1 - 3/5) / 2 + 3/5 · 2 / 2 · p(1 | 2), as 12 is followed by 1 and by 2, once.
    short = F(1, 9) + F(2, 3) * F(48, 125)
    long = F(1, 5) + F(3, 5) * short
    assert trigram.probabilities([1, 2])[1] == pytest.approx(float(long), rel=1e-14)
    # The second token of a document: p(1 | 0) = (2 - 2/3) / 2 + 2/3 / 2 · 48/125.
    second = F(2, 3) + F(1, 3) * F(48, 125)
    # The third: p(2 | 0 1) = (2 - 3/5) / 2 + 3/5 / 2 · p(2 | 1), and as 12 is all that goes on
    # from 1, with the count 1, p(2 | 1) = (1 - 2/3) + 2/3 · 48/125.
    third = F(7, 10) + F(3, 10) * (F(1, 3) + F(2, 3) * F(48, 125))
    nll = trigram.token_nll(*flat([[0, 1, 2, 1]]))
    np.testing.assert_allclose(nll, -np.log([float(second), float(third), float(long)]), rtol=1e-14)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_dictionaries_of_n_grams(order, seed):
    rng = generator(seed)
    vocabulary_size = int(rng.integers(5, 14))
    train = [*random_documents(rng, 25, vocabulary_size), [0, 1, 1, 2, 1]]
    # Begin tokens within a document, unseen tokens, empty documents, and documents of one token.
    unseen = vocabulary_size - 1
    test = [*random_documents(rng, 8, vocabulary_size), [], [0], [0, unseen, 1, 0, 2], [unseen, 1]]
    ours = ngram.KneserNey(*flat(train), vocabulary_size, order)
    theirs = Dictionaries(train, vocabulary_size, order)
    np.testing.assert_allclose(
        ours.discounts, [theirs.discount[n] for n in range(1, order + 1)], rtol=1e-15
    )
    expected = [nll for document in test for nll in theirs.nll(document)]
    np.testing.assert_allclose(ours.token_nll(*flat(test)), expected, rtol=1e-12, atol=1e-12)


def test_begin_tokens_within_documents_agree_with_dictionaries():
    rng = generator(9)
    train = [rng.integers(0, 4, rng.integers(1, 12)).tolist() for _ in range(30)]
    for order in (2, 3):
        ours = ngram.KneserNey(*flat(train), 6, order)
        theirs = Dictionaries(train, 6, order)
        expected = [nll for document in train for nll in theirs.nll(document)]
        np.testing.assert_allclose(ours.token_nll(*flat(train)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_rows_sum_to_one_for_seen_and_unseen_contexts(order):
    train = random_documents(generator(1), 40, 12)
    model = ngram.KneserNey(*flat(train), 12, order)
    for context in itertools.chain(*(itertools.product(range(12), repeat=n) for n in (0, 1, 2))):
        probabilities = model.probabilities(context)
        assert probabilities.shape == (12,) and (probabilities > 0).all()
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert ngram.Unigram(*flat(train), 12).probabilities().sum() == pytest.approx(1, abs=1e-12)


def test_a_level_without_an_n_gram_of_count_one_still_sums_to_one():
    # Every one of three tokens follows each of them, so no continuation count is 1 or 2.
    documents = [[u, v] for u in range(3) for v in range(3)] * 3
    model = ngram.KneserNey(*flat(documents), 7, order=2)
    assert model.discounts == (0.5, 0.5)
    for context in ([], [0], [6]):
        probabilities = model.probabilities(context)
        assert probabilities.sum() == pytest.approx(1, abs=1e-12) and (probabilities > 0).all()


@pytest.mark.parametrize("order", [2, 3])
def test_token_nll_agrees_with_probabilities(order):
    rng = generator(2)
    train, test = random_documents(rng, 30, 15), random_documents(rng, 10, 15)
    for model in (ngram.KneserNey(*flat(train), 15, order), ngram.Unigram(*flat(train), 15)):
        expected = [
            -math.log(model.probabilities(document[:i])[document[i]])
            for document in test
            for i in range(1, len(document))
        ]
        np.testing.assert_allclose(model.token_nll(*flat(test)), expected, rtol=1e-13)


def test_blocks_do_not_show(monkeypatch):
    train = random_documents(generator(3), 30, 15)
    model = ngram.KneserNey(*flat(train), 15, order=3)
    whole = model.token_nll(*flat(train))
    monkeypatch.setattr(ngram, "_BLOCK_TOKENS", 7)
    np.testing.assert_array_equal(model.token_nll(*flat(train)), whole)


@pytest.mark.parametrize("order", [2, 3])
def test_no_n_gram_crosses_the_border_of_documents(order):
    rng = generator(4)
    train, test = random_documents(rng, 30, 10), random_documents(rng, 10, 10)
    model = ngram.KneserNey(*flat(train), 10, order)
    # Neighbours differ after shuffling; what is within the documents does not.
    shuffled = [train[i] for i in rng.permutation(len(train))]
    other = ngram.KneserNey(*flat(shuffled), 10, order)
    together = model.token_nll(*flat(test))
    np.testing.assert_array_equal(other.token_nll(*flat(test)), together)
    apart = np.concatenate([model.token_nll(*flat([document])) for document in test])
    np.testing.assert_array_equal(together, apart)
    # Without the borders it is another model.
    tokens, lengths = flat(train)
    joined = ngram.KneserNey(tokens, [lengths.sum()], 10, order)
    assert np.abs(joined.token_nll(*flat(test)) - together).max() > 1e-3


def test_the_first_token_of_a_document_counts_for_nothing_in_the_unigram():
    documents = random_documents(generator(5), 20, 10)
    renamed = [[9, *document[1:]] for document in documents]
    before, after = ngram.Unigram(*flat(documents), 10), ngram.Unigram(*flat(renamed), 10)
    np.testing.assert_array_equal(before.probabilities(), after.probabilities())


def test_levels_approach_the_entropies_of_a_markov_chain():
    rng = generator(6)
    transition = rng.dirichlet(np.full(12, 0.3), size=12)  # [from, to]
    stationary = np.linalg.matrix_power(transition, 500)[0]  # [symbols]
    draws = rng.random(120_000)  # [tokens]
    cumulative, chain = transition.cumsum(axis=1), np.empty(len(draws), dtype=np.uint16)
    state = 0
    for i, draw in enumerate(draws):
        state = min(int(np.searchsorted(cumulative[state], draw)), 11)
        chain[i] = state
    lengths = np.full(200, 500)  # [documents]
    train, test = chain[:100_000], (chain[100_000:], np.full(40, 500))
    entropy = -np.sum(stationary * np.log(stationary))
    rate = -np.sum(stationary[:, None] * transition * np.log(np.maximum(transition, 1e-300)))
    # The standard error of a mean of 20,000 losses is about 0.01.
    unigram = ngram.Unigram(train, lengths, 12).token_nll(*test).mean()
    assert unigram == pytest.approx(entropy, abs=0.03)
    for order in (2, 3):
        nll = ngram.KneserNey(train, lengths, 12, order).token_nll(*test).mean()
        assert nll == pytest.approx(rate, abs=0.03)
    assert rate < entropy - 0.3


def test_small_integers_of_a_token_file_do_not_overflow():
    rng = generator(7)
    tokens = rng.integers(0, 50_000, 3000).astype(np.uint16)
    lengths = np.full(30, 100, dtype=np.int32)
    small = ngram.KneserNey(tokens, lengths, 50_257, 3).token_nll(tokens, lengths)
    wide = ngram.KneserNey(tokens.astype(np.int64), lengths, 50_257, 3).token_nll(tokens, lengths)
    np.testing.assert_array_equal(small, wide)
    theirs = Dictionaries(tokens[:200].reshape(2, 100).tolist(), 50_257, 3)
    ours = ngram.KneserNey(tokens[:200], lengths[:2], 50_257, 3)
    np.testing.assert_allclose(
        ours.token_nll(tokens[:100], [100]), theirs.nll(tokens[:100].tolist()), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("tokens", "lengths", "message"),
    [
        ([0, 1, 5], [3], "not in"),
        ([0, -1, 1], [3], "not in"),
        ([0, 1, 1], [2], "add up"),
        ([0, 1, 1], [4, -1], "add up"),
        ([0.0, 1.0, 1.0], [3], "^tokens must be a row of whole numbers$"),
        ([[0, 1, 1]], [3], "^tokens must be a row of whole numbers$"),
        ([0, 1, 1], [3.0], "^lengths must be a row of whole numbers$"),
    ],
)
def test_what_is_no_text_is_refused(tokens, lengths, message):
    model = ngram.KneserNey(*flat(TOY), 5, 2)
    for refuse in (
        model.token_nll,
        lambda tokens, lengths: ngram.Unigram(tokens, lengths, 5),
        lambda tokens, lengths: ngram.KneserNey(tokens, lengths, 5, 2),
    ):
        with pytest.raises(ValueError, match=message):
            refuse(tokens, lengths)
    with pytest.raises(ValueError, match="not in"):
        model.probabilities([7])


def test_orders_out_of_range_are_refused():
    for vocabulary_size, order in ((5, 1), (50_000, 5)):
        with pytest.raises(ValueError, match="order"):
            ngram.KneserNey(*flat(TOY), vocabulary_size, order)
    with pytest.raises(ValueError, match="3 tokens"):
        ngram.KneserNey(*flat([[0, 1], [0, 2]]), 5, 3)
