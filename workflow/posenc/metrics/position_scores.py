"""Scores of position against position, and how much of them is a mask by distance.

What softmax sees of scores z_ij is their differences within a query. Of those, a function of the
distance alone explains as much as the best b(i - j) + c_i does, where c_i is free because softmax
does not see it: b is the mask that stands for the positions best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEAST_TOKENS = 4
"""Fewer leave nothing that differs between queries of one distance."""


@dataclass(frozen=True, eq=False)
class DistanceParts:
    """Some heads.

    Attributes
    ----------
    curve
        float64 [n_heads, n - 1] for causal heads, [n_heads, 2 n - 2] for others: b by the distance
        i - j of query and key, nats, with mean 0 over all pairs; from 0 on, or from 1 - n on.
    first
        float64 [n_heads]: how much more the first key gets than ``curve`` says, mean over queries,
        nats.
    deviation
        float64 [n_heads]: standard deviation of the scores within a query, nats.
    share
        float64 [n_heads]: share of their variance that ``curve`` explains, in [0, 1]; NaN of a head
        that tells no positions apart. Of scores that do not know the distance it is about the
        number of distances over that of pairs, 2 / n for a causal head.
    """

    curve: Floats
    first: Floats
    deviation: Floats
    share: Floats


def distance_parts(scores: ArrayLike, *, causal: bool) -> DistanceParts:
    """The mask by distance that is nearest to the scores of position against position.

    Least squares over all pairs that a query sees, without the first key: many heads rest on it,
    wherever the query is.

    Parameters
    ----------
    scores
        [n_heads, n, n]: query, key; scaled, nats.
    causal
        Whether a query sees the keys up to its own only, or all.

    Raises
    ------
    ValueError
        If there are too few positions, or a score that is seen is not finite.
    """
    scores = np.asarray(scores, np.float64)  # [n_heads, n, n]
    n_heads, n, _ = scores.shape
    if n < LEAST_TOKENS:
        raise ValueError(f"{n} positions are too few for a function of distance")
    places = np.arange(n)  # [n]
    distance = places[:, None] - places  # [n, n]
    queries, keys = np.nonzero((places > 0) & ((distance >= 0) | (not causal)))  # [pairs] each
    values = scores[:, queries, keys]  # [n_heads, pairs]
    if not np.isfinite(values).all():
        raise ValueError("a score is not finite")
    number = np.bincount(queries, minlength=n)  # [n]: keys of a query
    safe = np.maximum(number, 1)  # [n]

    def by_query(values: Floats) -> Floats:  # [n_heads, pairs] to [n_heads, n]
        """Mean over the keys of each query."""
        return np.stack([np.bincount(queries, head, n) for head in values]) / safe

    centred = values - by_query(values)[:, queries]  # [n_heads, pairs]
    total = np.square(centred).sum(axis=-1)  # [n_heads]

    lowest = distance[queries, keys].min()
    which = distance[queries, keys] - lowest  # [pairs]: entry of b
    count = np.bincount(which)  # [distances]
    sees = np.zeros((n, len(count)))  # [n, distances]: 1 where a query sees a key at a distance
    sees[queries, which] = 1
    # Normal equations of b with the c_i eliminated. A constant in b is one in all c_i: it is fixed
    # by the mean of b over all pairs, the added rank-one term.
    normal = np.diag(count) - (sees / safe[:, None]).T @ sees  # [distances, distances]
    normal += np.outer(count, count) / count.sum()
    sums = np.stack([np.bincount(which, head) for head in centred], axis=1)  # [distances, n_heads]
    curve = np.linalg.solve(normal, sums).T.astype(np.float64)  # [n_heads, distances]

    left = values - curve[:, which]  # [n_heads, pairs]
    level = by_query(left)  # [n_heads, n]: c_i
    left -= level[:, queries]
    varies = total > 1e-24 * np.square(values).sum(axis=-1)  # [n_heads]
    share = np.full(n_heads, np.nan)
    np.divide(np.square(left).sum(axis=-1), total, out=share, where=varies)

    # Of the first key, queries whose distance to it b knows.
    after = np.flatnonzero((places < lowest + len(count)) & (number > 0))
    own = curve[:, after - lowest]  # [n_heads, queries]
    first = (scores[:, after, 0] - own - level[:, after]).mean(axis=1)  # [n_heads]
    return DistanceParts(curve, first, np.sqrt(total / number.sum()), np.clip(1 - share, 0, 1))
