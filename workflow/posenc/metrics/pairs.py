"""Means over all pairs of few things, with an interval over the things.

Pairs that share a picture are not independent: of n pictures there are n (n - 1) / 2 pairs, but
only n draws. So pictures are resampled, and a pair counts as often as both of its pictures were
drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Seed, percentile_interval, resampling_counts
from posenc.metrics.recovery import PairedMeans

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def balanced_pairs(members: ArrayLike) -> tuple[Integers, Integers]:
    """Every unordered pair once, each member as often the first as the second, or nearly.

    Parameters
    ----------
    members
        int [n]: what is paired.

    Returns
    -------
    int64 [n (n - 1) / 2] each: the first and the second of each pair.

    Examples
    --------
    >>> [part.tolist() for part in balanced_pairs([4, 7, 9])]
    [[4, 9, 7], [7, 4, 9]]
    """
    members = np.asarray(members, np.int64)  # [n]
    one, other = np.triu_indices(len(members), 1)  # [pairs] each
    is_kept = (one + other) % 2 == 1  # [pairs]
    return members[np.where(is_kept, one, other)], members[np.where(is_kept, other, one)]


class PairMeans(PairedMeans):
    """As :class:`posenc.metrics.recovery.PairedMeans`, with replicates over what is paired.

    The bootstrap of Davezies, D'Haultfœuille and Guyonvarch (2021),
    https://doi.org/10.1214/20-AOS1981: of n things n are drawn with replacement, and the pair of i
    and j weighs the product of how often they were drawn. A thing that is drawn twice makes no pair
    with itself. Resamples without any pair are left out; of a single pair the interval has no
    width.

    Parameters
    ----------
    values
        [pairs, k].
    first, second
        int [pairs]: the two things of each pair, which are different.
    samples, confidence, seed
        Of the percentile bootstrap.

    Raises
    ------
    ValueError
        If there is no pair, the shapes do not fit, a value is not finite, or a pair is twice the
        same thing.
    """

    def __init__(
        self,
        values: ArrayLike,
        first: ArrayLike,
        second: ArrayLike,
        *,
        samples: int,
        confidence: float,
        seed: Seed,
    ) -> None:
        values = np.asarray(values, np.float64)  # [pairs, k]
        first, second = np.asarray(first), np.asarray(second)  # [pairs] each
        if values.ndim != 2 or not first.shape == second.shape == values.shape[:1]:
            raise ValueError(
                f"shapes {values.shape}, {first.shape} and {second.shape} of values and pairs are "
                f"not [pairs, k], [pairs] and [pairs]"
            )
        if not len(values) or np.any(first == second):
            raise ValueError("there is no pair, or a pair is twice the same thing")
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        things, places = np.unique([first, second], return_inverse=True)
        one, other = places.reshape(2, -1)  # [pairs] each
        self.value = values.mean(axis=0)  # [k]
        self.confidence = confidence
        self._disjoint = len(things) // 2
        found = []
        for counts in resampling_counts(len(things), samples, seed):
            weights = (counts[:, one] * counts[:, other]).astype(np.float64)  # [block, pairs]
            weights = weights[weights.any(axis=1)]
            found.append(weights @ values / weights.sum(axis=1, keepdims=True))
        self.replicates = np.concatenate(found)  # [samples with a pair, k]

    def estimate(self, function: Callable[..., Any], *columns: int) -> dict[str, float]:
        """A function of the means of some columns, as JSON."""
        return self.of(function, *columns).as_json()  # type: ignore[return-value]

    def estimates(self, columns: slice = slice(None)) -> list[dict[str, float]]:
        """The means of some columns, as JSON."""
        found = percentile_interval(
            self.value[columns], self.replicates[:, columns], self.confidence
        )
        return found.as_json()  # type: ignore[return-value]

    def shares(self, columns: slice = slice(None)) -> list[dict[str, float]]:
        """As :meth:`estimates`, of columns of zeros and ones.

        Where all pairs have the same value no resample has another. Then the interval is Clopper
        and Pearson's (1934, https://doi.org/10.1093/biomet/26.4.404) of as many pairs as have no
        picture in common, half as many as pictures: only these are independent.
        """
        tail = ((1 - self.confidence) / 2) ** (1 / self._disjoint)
        found = self.estimates(columns)
        for one in found:
            if one["value"] == 0:
                one["high"] = 1 - tail
            elif one["value"] == 1:
                one["low"] = tail
        return found
