"""What a mixture of two vectors still tells of both: recall of the two, and distance from additive.

A mixture is w a + (1 - w) b. Its weights sum to one, so an affine map f, bias included, has
f(w a + (1 - w) b) = w f(a) + (1 - w) f(b) exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate


class Weighted(Protocol):
    """What was measured at a mixing weight."""

    @property
    def weight(self) -> float: ...


W = TypeVar("W", bound=Weighted)
HALF = 0.5
"""Mixing weight that documents report."""


class Recall(NamedTuple):
    """Shares of pairs of which both, the first and the second are among the two highest scores."""

    both: Estimate
    first: Estimate
    second: Estimate


@dataclass(frozen=True, eq=False)
class Found:
    """Which of the two that were mixed are among the two highest scores, bool [n] each."""

    first: NDArray[np.bool_]
    second: NDArray[np.bool_]

    @property
    def both(self) -> NDArray[np.bool_]:
        """Whether the two highest are the two that were mixed."""
        return self.first & self.second

    def shares(self) -> dict[str, float]:
        """``both``, ``first`` and ``second`` as shares of the n."""
        return {name: float(hits.mean()) for name, hits in self._each()}

    def recall(self, confidence: float) -> Recall:
        """The shares with intervals by Clopper and Pearson (1934), doi 10.1093/biomet/26.4.404."""
        return Recall(*(proportion(hits, confidence) for _, hits in self._each()))

    def _each(self) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        return ((name, getattr(self, name)) for name in ("both", "first", "second"))


def found_among_two(scores: ArrayLike, first: ArrayLike, second: ArrayLike) -> Found:
    """Whether each of two choices has one of the two highest scores.

    A choice is found if fewer than two others score as high as it does: a tie is not in its favour.

    Parameters
    ----------
    scores
        [n, choices], of any float type.
    first, second
        int [n]: the two that were mixed, which are different.

    Raises
    ------
    ValueError
        If the shapes do not fit, a score is not finite, or the two are the same.

    Examples
    --------
    >>> found_among_two([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]], [1, 1], [2, 2]).both.tolist()
    [True, False]
    """
    scores = np.asarray(scores)  # [n, choices]
    first, second = np.asarray(first), np.asarray(second)  # [n] each
    if scores.ndim != 2 or not first.shape == second.shape == scores.shape[:1]:
        raise ValueError(
            f"shapes {scores.shape}, {first.shape} and {second.shape} of scores and choices are "
            f"not [n, choices], [n] and [n]"
        )
    if np.any(first == second):
        raise ValueError("a pair is twice the same choice")
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite")
    rows = np.arange(len(scores))  # [n]
    first_score, second_score = scores[rows, first], scores[rows, second]  # [n] each
    rest = scores.astype(np.result_type(scores, np.float32))  # [n, choices], a copy
    rest[rows, first] = rest[rows, second] = -np.inf
    place = rest.argmax(axis=1)  # [n]
    highest = rest[rows, place]  # [n]
    rest[rows, place] = -np.inf
    next_highest = rest.max(axis=1)  # [n]
    return Found(
        first=(first_score > highest)
        | ((first_score > next_highest) & (first_score > second_score)),
        second=(second_score > highest)
        | ((second_score > next_highest) & (second_score > first_score)),
    )


def additivity_gap(mixed: ArrayLike, first: ArrayLike, second: ArrayLike, weight: float) -> float:
    """How far a map f is from additive: ‖f(w a + (1 - w) b) - s‖ / ‖s‖, s = w f(a) + (1 - w) f(b).

    The norms are over all pairs together (Frobenius), so that no pair with a small s decides.

    Parameters
    ----------
    mixed, first, second
        [n, features] each: f of the mixtures, of a and of b.
    weight
        w in [0, 1].

    Returns
    -------
    0 to rounding for an affine f; ValueError if the shapes differ or all of s is zero.
    """
    mixed, first, second = (np.asarray(x, np.float64) for x in (mixed, first, second))
    if not mixed.shape == first.shape == second.shape:
        raise ValueError(f"shapes {mixed.shape}, {first.shape} and {second.shape} differ")
    sums = weight * first + (1 - weight) * second  # [n, features]
    size = np.linalg.norm(sums)
    if not size > 0:
        raise ValueError("all sums of outputs are zero: there is nothing to compare with")
    return float(np.linalg.norm(mixed - sums) / size)


def chance(choices: int) -> dict[str, float]:
    """What guessing finds, of pairs of different choices that are uniform.

    Parameters
    ----------
    choices
        How many there are, at least 2.

    Returns
    -------
    ``both`` 1 / C(k, 2); ``one`` 2 / k, of either; ``other`` 1 / (k - 1): both, where one of them
    is known.
    """
    if choices < 2:
        raise ValueError(f"of {choices} choices there is no pair")
    return {"both": 2 / (choices * (choices - 1)), "one": 2 / choices, "other": 1 / (choices - 1)}


def pairs_of_classes(
    labels: ArrayLike, pairs: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random pairs of examples of different classes.

    The two classes are uniform over the ordered pairs of different classes, and each example is
    uniform in its class. So the class of the second says nothing of the first but what it is not.

    Parameters
    ----------
    labels
        int [examples].
    pairs
        How many; an example may be in several.
    generator
        Source of the draws.

    Returns
    -------
    int64 [pairs] each, rows of the labels; ValueError if there are fewer than two classes.
    """
    labels = np.asarray(labels)  # [examples]
    classes = np.unique(labels)  # [classes]
    if len(classes) < 2:
        raise ValueError("examples of two classes are needed")
    first_class, second_class = distinct_rows(len(classes), pairs, generator)  # [pairs] each
    members = [np.flatnonzero(labels == label) for label in classes]
    drawn = generator.random((2, pairs))  # in [0, 1)
    first, second = (
        np.array([members[c][int(u * len(members[c]))] for c, u in zip(chosen, row, strict=True)])
        for chosen, row in zip((first_class, second_class), drawn, strict=True)
    )
    return first.astype(np.int64), second.astype(np.int64)


def distinct_rows(
    rows: int, pairs: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Uniform pairs of different rows, int64 [pairs] each; ValueError if there are not two rows."""
    if rows < 2:
        raise ValueError(f"of {rows} rows there is no pair")
    first = generator.integers(rows, size=pairs)  # [pairs]
    second = (first + generator.integers(1, rows, size=pairs)) % rows  # [pairs]
    return first, second


class AbsentPartner(NamedTuple):
    """Recall where the second was not mixed in, and the exact binomial test of it.

    Attributes
    ----------
    both, first
        Pairs of which both, and of which the first was found.
    share, expected
        ``both`` over ``first``, and what guessing gives.
    p_value
        Two-sided.
    """

    both: int
    first: int
    share: float
    expected: float
    p_value: float


def absent_partner(both: int, first: int, choices: int) -> AbsentPartner:
    """The control: recall of both where the second was not mixed in.

    With :func:`pairs_of_classes` the class of the second is uniform over those that the first is
    not of, whatever the scores are. Given that the first is found, both are with probability
    1 / (k - 1) exactly.

    Parameters
    ----------
    both, first
        Pairs of which both, and of which the first was found.
    choices
        k, the classes.

    Raises
    ------
    ValueError
        If the first was found in no pair, or in fewer than both.
    """
    from scipy.stats import binomtest

    if not 0 <= both <= first or first == 0:
        raise ValueError(f"{both} of {first} pairs with the first found cannot be tested")
    expected = chance(choices)["other"]
    test = binomtest(both, first, expected)
    return AbsentPartner(both, first, both / first, expected, float(test.pvalue))


def proportion(hits: NDArray[np.bool_], confidence: float) -> Estimate:
    """Share of hits [n] with Clopper and Pearson's interval.

    In closed form: scipy searches for it, hundreds of times.
    """
    from scipy.special import betaincinv

    n, k = len(hits), int(hits.sum())
    tail = (1 - confidence) / 2
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return Estimate(k / n, low, high)


def at_half(entries: Iterable[W]) -> W | None:
    """The entry of equal weights, if there is one."""
    return next((entry for entry in entries if entry.weight == HALF), None)
