"""What states of mixed pictures still tell of the two: ranks of classes, and neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def ranks(scores: ArrayLike, choices: ArrayLike) -> Integers:
    """Places of some choices among all scores of a row; 1 is the highest.

    Parameters
    ----------
    scores
        [n, classes], of any float type.
    choices
        int [k]: the classes that are looked for in each row.

    Returns
    -------
    int64 [n, k]: how many scores are at least as high, so a tie is not in a choice's favour.

    Examples
    --------
    >>> ranks([[0.1, 0.9, 0.5]], [1, 0]).tolist()
    [[1, 3]]
    """
    scores = np.asarray(scores)  # [n, classes]
    chosen = [scores >= scores[:, [choice]] for choice in np.asarray(choices)]  # k of [n, classes]
    return np.stack([is_as_high.sum(axis=1) for is_as_high in chosen], axis=1)


def found_among(
    places: ArrayLike, first: ArrayLike, second: ArrayLike, top: int
) -> dict[str, Floats]:
    """Of each mixture, which of the two classes are among the highest, and which of others.

    Parameters
    ----------
    places
        int [pairs, k]: :func:`ranks` of all k classes that pictures have.
    first, second
        int [pairs]: columns of the two that were mixed.
    top
        Among how many.

    Returns
    -------
    float64 [pairs] each: ``both``, ``first``, ``second``, ``either`` (at least one of them) and
    ``others``, the share of all pairs of two other pictures of which both are among them; 0 where
    there are no two others.
    """
    first, second = np.asarray(first), np.asarray(second)  # [pairs] each
    is_high = np.asarray(places) <= top  # [pairs, k]
    rows = np.arange(len(is_high))  # [pairs]
    has_first, has_second = is_high[rows, first], is_high[rows, second]  # [pairs] each
    high = is_high.sum(axis=1) - has_first - has_second  # [pairs]
    left = is_high.shape[1] - 2
    outcomes = {
        "both": has_first & has_second,
        "first": has_first,
        "second": has_second,
        "either": has_first | has_second,
    }
    return {
        **{name: hits.astype(np.float64) for name, hits in outcomes.items()},
        "others": high * (high - 1) / max(left * (left - 1), 1),
    }


class Mixtures:
    """A stage's states of mixtures beside those of the pictures, taken in part by part.

    The nearest pictures are those of the highest cosines, once the mean state of all pictures is
    taken out of both: what all have in common would be most of a cosine.

    Parameters
    ----------
    states
        [pictures, features]: f of each picture.
    first, second
        int [pairs]: rows of the two that are mixed.
    weight
        w of w a + (1 - w) b.

    Attributes
    ----------
    distance
        float64 [pairs]: ‖f(a) - f(b)‖².
    outputs
        float64 [pairs, pictures]: cosines of s = w f(a) + (1 - w) f(b) with each picture.

    Raises
    ------
    ValueError
        If a state is not finite, or a picture's is the mean of all.
    """

    def __init__(self, states: ArrayLike, first: Integers, second: Integers, weight: float) -> None:
        self._states = np.asarray(states, np.float32)  # [pictures, features]
        self._first, self._second, self._weight = first, second, weight
        self._done: list[tuple[Floats, Floats]] = []
        self._seen = 0
        self._mean = self._states.mean(axis=0)  # [features]
        self._centred = self._states - self._mean  # [pictures, features]
        exact = self._centred.astype(np.float64)  # [pictures, features]
        products = exact @ exact.T  # [pictures, pictures]
        square = np.diagonal(products)  # [pictures]
        if not np.isfinite(products).all() or not square.min() > 0:
            raise ValueError("a picture's state is not finite, or no other than the mean of all")
        self._size = np.sqrt(square)  # [pictures]
        self.distance: Floats = square[first] + square[second] - 2 * products[first, second]
        self.outputs = self._cosines(weight * products[first] + (1 - weight) * products[second])

    def add(self, mixed: ArrayLike) -> None:
        """Take in f of the next mixtures, [part, features], in the order of the pairs."""
        mixed = np.asarray(mixed, np.float32)  # [part, features]
        part = slice(self._seen, self._seen + len(mixed))
        self._seen += len(mixed)
        w = self._weight
        rest = mixed - w * self._states[self._first[part]]  # [part, features]
        rest -= (1 - w) * self._states[self._second[part]]
        square = np.einsum("pf,pf->p", rest, rest).astype(np.float64)  # [part]
        self._done.append((square, (mixed - self._mean) @ self._centred.T))

    @property
    def square(self) -> Floats:
        """‖f(w a + (1 - w) b) - s‖², [pairs]."""
        return np.concatenate([square for square, _ in self._done])

    @property
    def inputs(self) -> Floats:
        """Cosines of f(w a + (1 - w) b) with pictures, [pairs, pictures], but for a row factor."""
        return self._cosines(np.concatenate([products for _, products in self._done]))

    def _cosines(self, products: Floats) -> Floats:
        # The norm of the mixture itself changes no order.
        return products / self._size
