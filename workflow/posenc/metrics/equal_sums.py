"""How often pairs of token and position are mistaken: counted of all pairs, bounded by a sample.

Without noise the nearest sum to a sum is itself, so pairs are mistaken for each other if and only
if their sums are equal. That is asked of all pairs at once; with noise a sample gives a bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.readback import EPS, blocks, rows_of


def count_mistaken(tokens: ArrayLike, positions: ArrayLike) -> int:
    """How many pairs are not read back from their sum W_v + P_q without noise.

    Of the pairs that share a sum, as float64, one is read and the others are not. Equal sums have
    equal inner products with any vector, so that all pairs are sorted by their product with a
    random one, and only those whose products are within rounding of each other are compared.

    Parameters
    ----------
    tokens, positions
        [vocabulary, d_model] and [positions, d_model], of any float type.

    Returns
    -------
    int
        Pairs less different sums; 0 if and only if all sums are different.
    """
    tokens = np.asarray(tokens)  # [vocabulary, d_model]
    positions = np.asarray(positions, np.float64)  # [positions, d_model]
    d_model = positions.shape[1]
    # Any vector serves; a random one is almost never at right angles to a difference.
    axis = np.random.default_rng(0).normal(size=d_model)  # [d_model]
    of_tokens = np.concatenate(
        [tokens[rows].astype(np.float64) @ axis for rows in blocks(len(tokens), rows_of(d_model))]
    )  # [vocabulary]
    products = np.add.outer(of_tokens, positions @ axis).ravel()  # [pairs]
    order = np.argsort(products)  # [pairs]
    # An inner product is off by at most d · eps / 2 of the norms' product (Higham 2002, 3.1).
    longest = sum(
        np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1).max())
        for vectors in (tokens, positions)
    )
    rounding = 8 * (d_model + 8) * EPS * longest * np.linalg.norm(axis)
    is_near = np.diff(products[order]) <= rounding  # [pairs - 1]
    is_member = np.zeros(len(order), np.bool_)  # [pairs]: whether a neighbour is near
    is_member[:-1] |= is_near
    is_member[1:] |= is_near
    token, position = np.divmod(order[is_member], len(positions))  # [near pairs] each
    return _repeated(tokens, positions, token, position)


def failure_bound(failures: int, tries: int, confidence: float) -> float:
    """The exact upper confidence bound of a share of failures, one-sided.

    Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404. Without a failure it is
    1 - (1 - confidence)^(1 / tries).
    """
    from scipy.stats import binomtest

    test = binomtest(failures, tries, alternative="less")
    return float(test.proportion_ci(confidence, method="exact").high)


def _repeated(
    tokens: NDArray[np.floating],  # [vocabulary, d_model]
    positions: NDArray[np.float64],  # [positions, d_model]
    token: NDArray[np.int64],  # [near pairs]
    position: NDArray[np.int64],  # [near pairs]
) -> int:
    """How many pairs have the same sum as a pair before them."""
    seen: set[bytes] = set()
    for part in blocks(len(token), rows_of(positions.shape[1])):
        sums = tokens[token[part]].astype(np.float64) + positions[position[part]]
        # Adding 0 makes -0 the same bytes as 0.
        seen.update(row.tobytes() for row in sums + 0.0)
    return len(token) - len(seen)
