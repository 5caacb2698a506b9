"""What a mixture of two vectors still tells of both: recall of the two, and distance from additive.

A mixture is w a + (1 - w) b. Its weights sum to one, so an affine map f, bias included, has
f(w a + (1 - w) b) = w f(a) + (1 - w) f(b) exactly. In a table of many rows, the two that were
mixed are those of the largest products, once the directions of the rows are nearly orthogonal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate

# Scores held at a time: few enough to stay in a processor's cache.
_SCORES = 2**19


class Recall(NamedTuple):
    """Shares of pairs of which both, the first and the second are among the two highest scores."""

    both: Estimate
    first: Estimate
    second: Estimate


class Decoders(NamedTuple):
    """Recall at a mixing weight, by which products decide."""

    weight: float
    cosine: Recall
    inner_product: Recall


class RecallAt(NamedTuple):
    """Recall in so many dimensions, by mixing weight."""

    dimensions: int
    weights: list[Decoders]


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


def recall_by_dimensions(
    table: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    dimensions: Sequence[int],
    weights: Sequence[float],
    confidence: float,
) -> list[RecallAt]:
    """How often both rows of a mixture have the two highest products with it, of all rows.

    Parameters
    ----------
    table
        [rows, d], of any float type, whose precision is kept. No row is zero in the first
        ``dimensions[0]`` columns.
    first, second
        int [pairs]: the rows that are mixed, w of the first and 1 - w of the second.
    dimensions
        How many of the first columns are taken in, rising, at most d.
    weights
        Mixing weights w.
    confidence
        Of the intervals.

    Returns
    -------
    For each number of dimensions, in their order.

    Raises
    ------
    ValueError
        If dimensions do not rise or are too many, a value is not finite, or a row is zero.
    """
    table = np.asarray(table)  # [rows, d]
    if list(dimensions) != sorted(set(dimensions)) or not 0 < dimensions[-1] <= table.shape[1]:
        raise ValueError(f"dimensions {dimensions} do not rise up to at most {table.shape[1]}")
    if not np.isfinite(table).all():
        raise ValueError("the table must be finite")
    halves = np.asarray(first, np.int64), np.asarray(second, np.int64)  # [pairs] each
    mixed = np.concatenate(halves)  # [2 pairs]
    # Those of the first columns are a part of those of more: each column is multiplied once.
    products = np.zeros((len(mixed), len(table)), table.dtype)  # [2 pairs, rows]
    squares = np.zeros(len(table), table.dtype)  # [rows]
    recalls, begin = [], 0
    for end in dimensions:
        columns = np.ascontiguousarray(table[:, begin:end])  # [rows, end - begin]
        products += columns[mixed] @ columns.T
        squares += np.square(columns).sum(axis=1)
        if not squares.min() > 0:
            raise ValueError("a row is zero: it has no direction")
        entries = [_decoders(products, squares, *halves, float(w), confidence) for w in weights]
        recalls.append(RecallAt(int(end), entries))
        begin = end
    return recalls


def _decoders(
    products: NDArray[np.floating],  # [2 pairs, rows]
    squares: NDArray[np.floating],  # [rows]
    first: NDArray[np.int64],  # [pairs]
    second: NDArray[np.int64],  # [pairs]
    weight: float,
    confidence: float,
) -> Decoders:
    pairs, rows = len(first), len(squares)
    # The norm of the mixture itself changes no order.
    scales = {"cosine": 1 / np.sqrt(squares), "inner_product": None}  # [rows]
    hits: dict[str, list[Found]] = {name: [] for name in scales}
    size = max(1, _SCORES // rows)
    for begin in range(0, pairs, size):
        part = slice(begin, begin + size)
        scores = weight * products[:pairs][part]  # [part, rows]
        scores += (1 - weight) * products[pairs:][part]
        for name, scale in scales.items():
            scaled = scores if scale is None else scores * scale  # [part, rows]
            hits[name].append(found_among_two(scaled, first[part], second[part]))
    recalls = {
        name: Found(
            np.concatenate([block.first for block in parts]),
            np.concatenate([block.second for block in parts]),
        ).recall(confidence)
        for name, parts in hits.items()
    }
    return Decoders(weight, **recalls)


def expected_recall(
    rows: int, dimensions: int, weight: float, draws: int, generator: np.random.Generator
) -> float:
    """Recall of both by cosine in a table of independent standard normal entries.

    Given the mixture x of a and b, the cosine c of any other row with x has (1 + c) / 2 ~
    Beta((d - 1) / 2, (d - 1) / 2), independent of all others. Both are found with probability
    F(m)^(V - 2), where m is the lesser cosine of x with a and with b; this is its mean over a and
    b, of which only |a|², |b|² and a·b matter.

    Parameters
    ----------
    rows, dimensions
        V and d, at least 2 each.
    weight
        w in [0, 1].
    draws
        Of a and b; the standard error is at most 0.5 / √draws.
    generator
        Source of the draws.

    Returns
    -------
    Probability. Cosines of random directions: Muirhead (1982), *Aspects of Multivariate
    Statistical Theory*, theorem 1.5.7.
    """
    from scipy.special import betainc

    if rows < 2 or dimensions < 2:
        raise ValueError(f"{rows} rows of {dimensions} dimensions: both must be at least 2")
    aa = generator.chisquare(dimensions, draws)  # [draws]
    along = generator.normal(size=draws)  # [draws], of b in the direction of a
    bb = along**2 + generator.chisquare(dimensions - 1, draws)  # [draws]
    ab = np.sqrt(aa) * along  # [draws]
    v, w = 1 - weight, weight
    size = np.sqrt(w * w * aa + 2 * w * v * ab + v * v * bb)  # [draws]
    with_a = (w * aa + v * ab) / (size * np.sqrt(aa))  # [draws]
    with_b = (w * ab + v * bb) / (size * np.sqrt(bb))  # [draws]
    least = np.clip(np.minimum(with_a, with_b), -1, 1)  # [draws]
    half = (dimensions - 1) / 2
    beyond = betainc(half, half, (1 - least) / 2)  # [draws]: one other row is nearer to x
    with np.errstate(divide="ignore"):
        return float(np.mean(np.exp((rows - 2) * np.log1p(-beyond))))


def needed_dimensions(rows: int, weight: float) -> float | None:
    """Dimensions from which on both are found in a random table, for large tables.

    The lesser of the two products is about min(w, 1 - w) d, the largest of the V others
    √(d (w² + (1 - w)²) 2 ln V), as the largest of V standard normals is about √(2 ln V). They are
    equal at d = 2 ln V (w² + (1 - w)²) / min(w, 1 - w)²; at w = 1/2 that is 4 ln V.

    Parameters
    ----------
    rows
        V.
    weight
        w in [0, 1].

    Returns
    -------
    d; None where one of the two has the weight 0, as it is never found but by chance. Compare
    Plate (1995), https://doi.org/10.1109/72.377968, on sums of random vectors as memory.
    """
    less = min(weight, 1 - weight)
    if less <= 0:
        return None
    return float(2 * np.log(rows) * (weight**2 + (1 - weight) ** 2) / less**2)


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
