"""What is read off frozen features, which documents are drawn, and what chance does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression

from posenc.metrics.downstream import (
    BAG_PENALTIES,
    BagOfWords,
    Frozen,
    balanced_rows,
    chance_test,
    relative_changes,
)


@given(
    ones=st.integers(6, 40), zeros=st.integers(6, 40), first=st.integers(1, 5),
    second=st.integers(1, 5), seed=st.integers(0, 99),
)  # fmt: skip
def test_drawn_rows_are_disjoint_and_balanced(ones, zeros, first, second, seed):
    labels = np.random.default_rng(seed).permutation([True] * ones + [False] * zeros)
    sizes = {"training": first, "validation": second}
    drawn = balanced_rows(labels, sizes, np.random.default_rng(seed))
    assert {name: len(rows) for name, rows in drawn.items()} == sizes
    assert not set(drawn["training"]) & set(drawn["validation"])
    for rows in drawn.values():
        assert np.sum(~labels[rows]) - np.sum(labels[rows]) == len(rows) % 2
        assert np.all(np.diff(rows) > 0)


@given(correct=st.integers(0, 60), more=st.integers(0, 60))
def test_the_binomial_test_is_the_sum_of_less_likely_results(correct, more):
    documents = correct + more
    if documents == 0:
        return
    result = chance_test(correct, documents)
    pmf = stats.binom.pmf(np.arange(documents + 1), documents, 0.5)
    by_hand = pmf[pmf <= pmf[correct] * (1 + 1e-7)].sum()
    assert result.p_value == pytest.approx(min(1.0, by_hand), rel=1e-9)
    assert result.accuracy.low <= correct / documents <= result.accuracy.high


def test_coins_make_any_blind_rule_binomial():
    """Even one that gives all documents the same label, for which balanced labels would not do."""
    generator = np.random.default_rng(2)
    coins = generator.random((4000, 40)) < 0.5  # [draws, documents]
    right = (coins == np.ones(40, bool)).sum(axis=1)  # [draws]
    expected = 4000 * stats.binom.pmf(np.arange(41), 40, 0.5)
    inner = slice(14, 27)
    counts = np.bincount(right, minlength=41)
    observed = [counts[:14].sum(), *counts[inner], counts[27:].sum()]
    law = [expected[:14].sum(), *expected[inner], expected[27:].sum()]
    assert stats.chisquare(observed, law).pvalue > 0.01


def planted(count: int, seed: int, strength: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 2 == 1
    features = generator.normal(size=(count, 12))
    features[:, 3] += strength * labels
    return 100 * features, labels


def test_a_planted_direction_is_read_and_noise_is_not():
    (x, y), (vx, vy), (tx, ty) = planted(120, 0), planted(60, 1), planted(400, 2)
    assert np.mean(Frozen.fit(x, y, vx, vy).predict(tx) == ty) > 0.78
    noise = Frozen.fit(*planted(120, 3, 0.0), *planted(60, 4, 0.0))
    tx, ty = planted(1000, 5, 0.0)
    assert chance_test(int(np.sum(noise.predict(tx) == ty)), 1000).p_value > 0.01
    # Noise is best told with hardly any weight: the penalty is chosen on validation documents.
    assert noise.inverse_penalty < Frozen.fit(x, y, vx, vy).inverse_penalty


def test_the_chosen_penalty_has_the_least_validation_loss():
    (x, y), (vx, vy) = planted(60, 6, 0.7), planted(60, 7, 0.7)
    frozen = Frozen.fit(x, y, vx, vy)
    mean, sd = x.mean(axis=0), x.std(axis=0)
    losses = {}
    for penalty in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0):
        model = LogisticRegression(C=penalty, max_iter=1000).fit((x - mean) / sd, y)
        chance = model.predict_proba((vx - mean) / sd)[np.arange(60), vy.astype(int)]
        losses[penalty] = -np.log(chance).mean()
    assert frozen.inverse_penalty == min(losses, key=losses.get)
    assert frozen.validation_loss == pytest.approx(min(losses.values()), rel=1e-6)


def bags(count: int, seed: int, told: float = 0.8) -> tuple[list[list[int]], np.ndarray]:
    """Documents of uninformative words, and of one of two that tends to tell the label."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 2 == 1
    ids = [generator.integers(10, 40, 12).tolist() for _ in range(count)]
    for document, label in zip(ids, labels, strict=True):
        document[generator.integers(12)] = 5 if label == (generator.random() < told) else 6
    return ids, labels


def test_a_planted_word_is_read_whatever_the_order():
    (x, y), (vx, vy), (tx, ty) = bags(2000, 0), bags(400, 1), bags(2000, 2)
    bag = BagOfWords.fit(x, y, vx, vy)
    right = np.mean(bag.predict(tx) == ty)
    assert right == pytest.approx(0.8, abs=0.04), "as often as the word tells"
    generator = np.random.default_rng(3)
    shuffled = [generator.permutation(document).tolist() for document in tx]
    assert np.array_equal(bag.predict(shuffled), bag.predict(tx))
    # Words that were never seen say nothing, and are no error.
    assert len(bag.predict([[999], []])) == 2


def test_the_vectors_of_a_bag_are_those_of_their_definition():
    documents = [[1, 1, 2], [2, 3], [3, 3, 3, 4]]
    bag = BagOfWords.fit(documents, [True, False, True], documents, [True, False, True])
    rows = bag.vectors.transform(documents).toarray()  # [documents, words]
    for row, document in zip(rows, documents, strict=True):
        rare = {word: np.log(4 / (1 + sum(word in d for d in documents))) + 1 for word in range(5)}
        by_hand = np.array([document.count(word) * rare[word] for word in (1, 2, 3, 4)])
        np.testing.assert_allclose(row, by_hand / np.linalg.norm(by_hand), rtol=1e-12)


def test_the_penalty_of_a_bag_is_chosen_on_validation_documents():
    (x, y), (vx, vy) = bags(60, 6), bags(60, 7)
    bag = BagOfWords.fit(x, y, vx, vy)
    losses = {
        penalty: BagOfWords.fit(x, y, vx, vy, [penalty]).validation_loss
        for penalty in BAG_PENALTIES
    }
    assert bag.inverse_penalty == min(losses, key=losses.get)
    assert bag.validation_loss == pytest.approx(min(losses.values()))
    chance = bag.regression.predict_proba(bag.vectors.transform(vx))
    by_hand = -np.log(chance[np.arange(60), vy.astype(int)]).mean()
    assert bag.validation_loss == pytest.approx(by_hand, rel=1e-9)


def test_validation_documents_may_have_one_label():
    (x, y), (vx, vy) = bags(60, 6), bags(60, 7)
    positive = [ids for ids, label in zip(vx, vy, strict=True) if label]
    bag = BagOfWords.fit(x, y, positive, [True] * len(positive), [1.0])
    chance = bag.regression.predict_proba(bag.vectors.transform(positive))[:, 1]  # [documents]
    assert bag.validation_loss == pytest.approx(-np.log(chance).mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: balanced_rows([True, False], {"a": 4}, np.random.default_rng(0)),
            "2 rows of a label",
        ),
        (lambda: Frozen.fit([[1.0], [2.0]], [True, True], [[1.0]], [True]), "same label"),
        (lambda: Frozen.fit([[1.0], [2.0]], [0, 1], [[1.0]], [True], []), "no inverse penalty"),
        (lambda: BagOfWords.fit([[1], [2]], [True, True], [[1]], [True]), "same label"),
        (lambda: relative_changes([[0.0]], [[1.0]]), "zero"),
        (lambda: relative_changes([[1.0]], [[1.0], [1.0]]), "differ"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_rounding_of_a_blind_model_is_not_read():
    """Entries that are the same but for rounding, which tells the label, as in a bag of tokens."""
    labels = np.arange(60) % 2 == 1
    same = np.tile(np.random.default_rng(0).normal(size=8), (60, 1))
    features = same * (1 + 1e-7 * labels[:, None])
    frozen = Frozen.fit(features[:40], labels[:40], features[40:], labels[40:])
    assert frozen.validation_loss == pytest.approx(np.log(2), rel=1e-3)


def test_relative_change_is_that_of_the_norm():
    change = relative_changes([[3.0, 4.0], [0.0, 2.0]], [[3.0, 4.0], [2.0, 2.0]])
    assert change == {"mean": pytest.approx(0.5), "largest": pytest.approx(1.0)}
