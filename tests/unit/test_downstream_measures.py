"""What is read off frozen features, which documents are drawn, and what chance does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression

from posenc.metrics.downstream import (
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
    found = balanced_rows(labels, sizes, np.random.default_rng(seed))
    assert {name: len(rows) for name, rows in found.items()} == sizes
    assert not set(found["training"]) & set(found["validation"])
    for rows in found.values():
        assert np.sum(~labels[rows]) - np.sum(labels[rows]) == len(rows) % 2
        assert np.all(np.diff(rows) > 0)


@given(correct=st.integers(0, 60), more=st.integers(0, 60))
def test_the_binomial_test_is_the_sum_of_less_likely_results(correct, more):
    documents = correct + more
    if documents == 0:
        return
    found = chance_test(correct, documents)
    pmf = stats.binom.pmf(np.arange(documents + 1), documents, 0.5)
    by_hand = pmf[pmf <= pmf[correct] * (1 + 1e-7)].sum()
    assert found["p_value"] == pytest.approx(min(1.0, by_hand), rel=1e-9)
    assert found["accuracy"]["low"] <= correct / documents <= found["accuracy"]["high"]


def test_coins_make_any_blind_rule_binomial():
    """Even one that gives all documents the same label, for which balanced labels would not do."""
    generator = np.random.default_rng(2)
    coins = generator.random((4000, 40)) < 0.5  # [draws, documents]
    right = (coins == np.ones(40, bool)).sum(axis=1)  # [draws]
    expected = 4000 * stats.binom.pmf(np.arange(41), 40, 0.5)
    inner = slice(14, 27)
    found = np.bincount(right, minlength=41)
    observed = [found[:14].sum(), *found[inner], found[27:].sum()]
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
    assert chance_test(int(np.sum(noise.predict(tx) == ty)), 1000)["p_value"] > 0.01
    # Noise is best told with hardly any weight: the penalty is chosen on validation documents.
    assert noise.inverse_penalty < Frozen.fit(x, y, vx, vy).inverse_penalty


def test_the_chosen_penalty_has_the_least_validation_loss():
    (x, y), (vx, vy) = planted(60, 6, 0.7), planted(60, 7, 0.7)
    found = Frozen.fit(x, y, vx, vy)
    mean, sd = x.mean(axis=0), x.std(axis=0)
    losses = {}
    for penalty in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0):
        model = LogisticRegression(C=penalty, max_iter=1000).fit((x - mean) / sd, y)
        chance = model.predict_proba((vx - mean) / sd)[np.arange(60), vy.astype(int)]
        losses[penalty] = -np.log(chance).mean()
    assert found.inverse_penalty == min(losses, key=losses.get)
    assert found.validation_loss == pytest.approx(min(losses.values()), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: balanced_rows([True, False], {"a": 4}, np.random.default_rng(0)),
            "2 rows of a label",
        ),
        (lambda: Frozen.fit([[1.0], [2.0]], [True, True], [[1.0]], [True]), "same label"),
        (lambda: Frozen.fit([[1.0], [2.0]], [0, 1], [[1.0]], [True], []), "no inverse penalty"),
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
    found = Frozen.fit(features[:40], labels[:40], features[40:], labels[40:])
    assert found.validation_loss == pytest.approx(np.log(2), rel=1e-3)


def test_relative_change_is_that_of_the_norm():
    found = relative_changes([[3.0, 4.0], [0.0, 2.0]], [[3.0, 4.0], [2.0, 2.0]])
    assert found == {"mean": pytest.approx(0.5), "largest": pytest.approx(1.0)}
