"""Means over pairs of things, such as pictures or documents, with an interval over the things.

Pairs that share a picture are not independent: of n pictures there are n (n - 1) / 2 pairs, but
only n draws. So pictures are resampled, and a pair counts as often as both of its pictures were
drawn.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, Seed, percentile_interval, resampling_counts
from posenc.metrics.recovery import PairedMeans

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# Largest number of weights of pairs held at a time: 16 MB as int64.
_BLOCK_WEIGHTS = 2**21


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
    row, column = np.triu_indices(len(members), 1)  # [pairs] each
    is_kept = (row + column) % 2 == 1  # [pairs]
    return members[np.where(is_kept, row, column)], members[np.where(is_kept, column, row)]


def pair_replicates(
    values: ArrayLike, first: ArrayLike, second: ArrayLike, *, things: int, samples: int, seed: Seed
) -> Floats:
    """Means over pairs, of resampled things.

    The bootstrap of Davezies, D'Haultfœuille and Guyonvarch (2021),
    https://doi.org/10.1214/20-AOS1981: of n things n are drawn with replacement, and the pair of i
    and j weighs the product of how often they were drawn, because each copy of the one meets each
    copy of the other. A thing that is drawn twice makes no pair with itself. A pair within one
    thing is a part of it, as a token is of its document, and weighs how often that was drawn.

    That many pairs were drawn of few things makes the interval no narrower than the things allow.
    What varies from pair to pair alone counts up to three times, so that an interval is too wide
    rather than too narrow where pairs are few: Owen (2007), https://doi.org/10.1214/07-AOAS122.

    Parameters
    ----------
    values
        [pairs, k].
    first, second
        int [pairs]: the things of each pair, numbered from 0; the same where it is within one.
    things
        How many things there are, those without a pair too.
    samples, seed
        Of the bootstrap. Calls with the same seed, number of things and number of samples draw the
        same things, as :func:`posenc.metrics.bootstrap.ratio_replicates` does.

    Returns
    -------
    float64 [samples, k]: NaN where no pair was drawn.
    """
    values = np.asarray(values, np.float64)  # [pairs, k]
    first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)  # [pairs] each
    is_within = first == second  # [pairs]
    rows = max(1, _BLOCK_WEIGHTS // max(things, len(values)))
    replicates = []
    for counts in resampling_counts(things, samples, seed, rows * things):
        weights = counts[:, first]  # [block, pairs]
        weights *= np.where(is_within, 1, counts[:, second])  # [block, pairs]
        total = weights.sum(axis=1, keepdims=True).astype(np.float64)  # [block, 1]
        total[total == 0] = np.nan
        replicates.append(weights.astype(np.float64) @ values / total)
    return np.concatenate(replicates)


class PairMeans(PairedMeans):
    """As :class:`posenc.metrics.recovery.PairedMeans`, with replicates over what is paired.

    Those of :func:`pair_replicates`. Resamples without any pair are left out; of a single pair the
    interval has no width.

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
        first_place, second_place = places.reshape(2, -1)  # [pairs] each
        self.value = values.mean(axis=0)  # [k]
        self.confidence = confidence
        self._disjoint = len(things) // 2
        replicates = pair_replicates(
            values, first_place, second_place, things=len(things), samples=samples, seed=seed
        )  # [samples, k]
        self.replicates = replicates[~np.isnan(replicates).any(axis=1)]  # [samples with a pair, k]

    def estimates(self) -> list[Estimate]:
        """The means, one by one."""
        means = percentile_interval(self.value, self.replicates, self.confidence)
        numbers = np.stack([means.value, means.low, means.high], axis=1)  # [k, 3]
        return [Estimate(*each) for each in numbers.tolist()]

    def shares(self) -> list[Estimate]:
        """As :meth:`estimates`, of columns of zeros and ones.

        Where all pairs have the same value no resample has another. Then the interval is Clopper
        and Pearson's (1934, https://doi.org/10.1093/biomet/26.4.404) of as many pairs as have no
        picture in common, half as many as pictures: only these are independent.
        """
        tail = ((1 - self.confidence) / 2) ** (1 / self._disjoint)

        def of_pairs_apart(share: Estimate) -> Estimate:
            if share.value == 0:
                return replace(share, high=1 - tail)
            return replace(share, low=tail) if share.value == 1 else share

        return [of_pairs_apart(share) for share in self.estimates()]
