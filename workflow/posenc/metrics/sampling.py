"""Random choices of tokens and of heads."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Seed = int | np.random.SeedSequence | np.random.Generator


def sampled(values: ArrayLike, count: int, seed: Seed) -> NDArray[np.int64]:
    """Draw values without replacement, in rising order; take all of them if there are no more.

    Parameters
    ----------
    values
        int [n], in rising order.
    count
        How many to draw.
    seed
        Of the random generator, or the generator.

    Returns
    -------
    int64 [min(n, count)].

    Examples
    --------
    >>> sampled([3, 5, 8], 4, 0).tolist()
    [3, 5, 8]
    """
    values = np.asarray(values)  # [n]
    if len(values) <= count:
        return values
    return np.sort(np.random.default_rng(seed).choice(values, count, replace=False))


def sampled_heads(
    n_layers: int, n_heads: int, count: int, generator: np.random.Generator
) -> list[tuple[int, int]]:
    """Random heads, (layer, head) in rising order, spread over layers as evenly as possible.

    All heads are taken if there are no more than ``count``.
    """
    order = generator.permutation(n_layers)  # [n_layers]
    within = [generator.permutation(n_heads) for _ in range(n_layers)]  # [n_heads] each
    dealt = [(int(layer), int(within[layer][turn])) for turn in range(n_heads) for layer in order]
    return sorted(dealt[:count])


def shuffled_within(
    values: NDArray[np.int64], group: ArrayLike, seed: Seed | list[int]
) -> NDArray[np.int64]:
    """Shuffle values within their groups.

    Parameters
    ----------
    values
        int64 [n], group by group.
    group
        int [n]: group of each value, rising.
    seed
        Of the random generator.

    Returns
    -------
    int64 [n]: the values of each group in random order, in the places of that group.
    """
    generator = np.random.default_rng(seed)
    return values[np.lexsort((generator.random(len(values)), np.asarray(group)))]
