"""Whether both rows of a mixture can be read off a table, by its number of dimensions.

Of a mixture w a + (1 - w) b of two rows of a table, the two of the largest products with it are a
and b, once the directions of the rows are nearly orthogonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.superposition import Found, Recall, found_among_two

# Scores held at a time: few enough to stay in a processor's cache.
_SCORES = 2**19


class Decoders(NamedTuple):
    """Recall at a mixing weight, by which products decide."""

    weight: float
    cosine: Recall
    inner_product: Recall


class RecallAt(NamedTuple):
    """Recall in so many dimensions, by mixing weight."""

    dimensions: int
    weights: list[Decoders]


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
