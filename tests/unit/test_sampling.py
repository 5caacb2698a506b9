"""Random choices: what they leave unchanged, and that they are spread evenly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from posenc.metrics.sampling import sampled, sampled_heads, shuffled_within


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(n=st.integers(1, 30), count=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_sample_is_some_of_the_values_in_order(n, count, seed):
    values = 3 * np.arange(n)
    sample = sampled(values, count, seed)
    assert len(sample) == min(n, count)
    assert set(sample) <= set(values) and (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(sample, sampled(values, count, seed))


def test_every_value_is_drawn_as_often():
    draws = np.concatenate([sampled(np.arange(10), 3, seed) for seed in range(4000)])
    counts = np.bincount(draws, minlength=10)
    # Each of 4000 samples holds a value with probability 0.3; six standard deviations.
    assert np.abs(counts - 1200).max() < 6 * np.sqrt(4000 * 0.3 * 0.7)


def test_heads_are_spread_over_layers():
    for seed in range(20):
        heads = sampled_heads(3, 4, 5, generator(seed))
        assert len(set(heads)) == 5 and heads == sorted(heads)
        counts = np.bincount([layer for layer, _ in heads], minlength=3)
        assert sorted(counts) == [1, 2, 2]
    every = [(layer, head) for layer in range(3) for head in range(4)]
    assert sampled_heads(3, 4, 99, generator()) == every
    assert len({tuple(sampled_heads(3, 4, 2, generator(seed))) for seed in range(9)}) > 1


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_shuffling_keeps_each_groups_values(sizes, seed):
    group = np.repeat(np.arange(len(sizes)), sizes)
    values = generator(seed).permutation(len(group))
    shuffled = shuffled_within(values, group, seed)
    for number in range(len(sizes)):
        assert sorted(shuffled[group == number]) == sorted(values[group == number])


def test_all_orders_within_a_group_come_up():
    orders = {tuple(shuffled_within(np.arange(3), [0, 0, 0], seed)) for seed in range(200)}
    assert len(orders) == 6
