"""Whether a token and its position can be read back from the sum of their embeddings.

The sum x = W_v + P_q is decoded by the pair (v, q) that is nearest among all of them, with noise
or without, and before or after layer normalisation. The search is exact. It never holds more than
blocks of the table of all pairs: what an inner product of each token with each position gives is
reduced to bounds for groups of positions, and only tokens whose bound is low enough are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate
from posenc.metrics.norms import layer_norm

# Numbers of an array held at a time: 64 MB as float64 for bounds, 16 MB for what is looked at.
_BOUNDS = 2**23
VALUES = 2**21

# Positions that share a bound: fewer bind more tightly, and cost more.
_GROUP = 32

# Tokens with the lowest bounds, which are looked at before all others.
_SEEDS = 8
Floats = NDArray[np.float64]
EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Decoded:
    """The nearest pair of each query.

    ``token`` and ``position`` are int64 [n], rows of the two tables; ``distance``, float64 [n], is
    that to their sum, and ``runner_up`` that to the nearest sum of any other pair.
    """

    token: NDArray[np.int64]
    position: NDArray[np.int64]
    distance: Floats
    runner_up: Floats


class Sums:
    """All sums of a token's and a position's embedding, searched exactly.

    ||x - W_v - P_q||² = a[n, v] + b[n, q] + c[v, q] with a = ||x||² + ||W_v||² - 2 x·W_v,
    b = ||P_q||² - 2 x·P_q and c = 2 W_v·P_q, so that a pair costs one addition. The least b and
    the least c of a group of positions bound the distance from below. What may be among the two
    nearest within rounding is computed again as the sum of squared differences, which decides.

    Parameters
    ----------
    tokens, positions
        [vocabulary, d_model] and [positions, d_model], of any float type; ValueError if they do
        not fit, hold a value that is not finite, or have fewer than two pairs.
    """

    # Of the layer normalisation of the sums; None for none.
    eps: float | None = None

    def __init__(self, tokens: ArrayLike, positions: ArrayLike) -> None:
        self.tokens = np.asarray(tokens)  # [vocabulary, d_model]
        self.positions = np.asarray(positions, np.float64)  # [positions, d_model]
        if self.tokens.ndim != 2 or self.tokens.shape[1:] != self.positions.shape[1:]:
            raise ValueError(
                f"shapes {self.tokens.shape} and {self.positions.shape} are not "
                f"[vocabulary, d_model] and [positions, d_model]"
            )
        if len(self.tokens) * len(self.positions) < 2:
            raise ValueError("two pairs are needed, so that there is a runner-up")
        if not (np.isfinite(self.tokens).all() and np.isfinite(self.positions).all()):
            raise ValueError("the embeddings must be finite")
        self.d_model = self.tokens.shape[1]
        self._groups = np.arange(0, len(self.positions), _GROUP)  # [groups]
        self._prepare()

    def vectors(self, token: ArrayLike, position: ArrayLike) -> Floats:
        """The sums of pairs, float64 [n, d_model]."""
        return self.tokens[token].astype(np.float64) + self.positions[position]

    def decode(self, x: ArrayLike) -> Decoded:
        """The pair whose sum is nearest to each query, of all pairs there are.

        Parameters
        ----------
        x
            [n, d_model].

        Returns
        -------
        Of pairs whose squared distances are equal as float64, the first token, then position.
        As a sum is at distance 0 from itself, all pairs are read back if and only if all sums are
        different. ValueError if the shape does not fit or a value is not finite.
        """
        x = np.asarray(x, np.float64)  # [n, d_model]
        if x.ndim != 2 or x.shape[1] != self.d_model or not np.isfinite(x).all():
            raise ValueError(f"queries of shape {x.shape} are not finite [n, {self.d_model}]")
        size = max(1, _BOUNDS // len(self.tokens))
        pairs = [_Search(self, x[part]).run() for part in blocks(len(x), size)]
        token, position, squared = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        distance = np.sqrt(squared)  # [n, 2]
        return Decoded(token[:, 0], position[:, 0], distance[:, 0], distance[:, 1])

    def _prepare(self) -> None:
        self._token_norm = np.empty(len(self.tokens))  # [vocabulary], squared
        self._position_norm = np.square(self.positions).sum(axis=1)  # [positions], squared
        self._bound = np.empty((len(self._groups), len(self.tokens)))  # [groups, vocabulary]
        for rows in blocks(len(self.tokens), rows_of(len(self.positions))):
            self._token_norm[rows] = np.square(self._rows(rows)).sum(axis=1)
            least = np.minimum.reduceat(self._table(rows), self._groups, axis=1)
            self._bound[:, rows] = least.T
        self._scale = float(np.sqrt(self._token_norm.max()) + np.sqrt(self._position_norm.max()))

    def _rows(self, rows: slice | NDArray[np.int64]) -> Floats:
        return self.tokens[rows].astype(np.float64)  # [rows, d_model]

    def _table(self, rows: slice | NDArray[np.int64]) -> Floats:
        """What only depends on the pair, [rows, positions]."""
        return 2 * self._rows(rows) @ self.positions.T

    def _query(self, x: Floats) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """a [n, vocabulary] and b [n, positions]; what all pairs share [n]; rounding [n]."""
        own = np.square(x).sum(axis=1)  # [n]
        a = np.empty((len(x), len(self.tokens)))  # [n, vocabulary]
        for rows in blocks(len(self.tokens), rows_of(self.d_model)):
            a[:, rows] = self._token_norm[rows] - 2 * x @ self._rows(rows).T
        b = self._position_norm - 2 * x @ self.positions.T  # [n, positions]
        # An inner product is off by at most d · eps / 2 of the norms' product (Higham 2002, 3.1).
        off = 8 * (self.d_model + 8) * EPS * np.square(np.sqrt(own) + self._scale)  # [n]
        return a, b, own, off

    def _lower(self, a: Floats, b: Floats) -> Floats:
        """The least value of a token that its groups of positions allow, [n, vocabulary]."""
        least = np.minimum.reduceat(b, self._groups, axis=1)  # [n, groups]
        lower = np.empty_like(a)  # [n, vocabulary]
        for rows in blocks(a.shape[1], max(1, VALUES // (4 * len(a)))):
            best = np.full((len(a), rows.stop - rows.start), np.inf)  # [n, rows]
            for group, bound in enumerate(self._bound[:, rows]):
                np.minimum(best, least[:, group, None] + bound, out=best)
            lower[:, rows] = a[:, rows] + best
        return lower

    def _values(self, a: Floats, b: Floats, table: Floats) -> Floats:
        """Squared distances without what all pairs share, of a [k], b and table [k, positions].

        They are [k, positions], and take the table's memory over.
        """
        table += b
        table += a[:, None]
        return table


class _Search:
    """The two nearest pairs of a batch of queries."""

    def __init__(self, sums: Sums, x: Floats) -> None:
        n = len(x)
        self.sums, self.x = sums, x
        self.a, self.b, self.shared, self.off = sums._query(x)
        self.token = np.zeros((n, 2), np.int64)
        self.position = np.zeros((n, 2), np.int64)
        self.squared = np.full((n, 2), np.inf)
        # No value above this one is of one of the two nearest.
        self.limit = np.full(n, np.inf)  # [n]

    def run(self) -> tuple[NDArray, NDArray, NDArray]:
        """Tokens, positions and squared distances, nearest first, [n, 2] each."""
        lower = self.sums._lower(self.a, self.b)  # [n, vocabulary]
        n, vocabulary = lower.shape
        seeds = np.argpartition(lower, min(_SEEDS, vocabulary) - 1, axis=1)[:, :_SEEDS]
        query = np.repeat(np.arange(n), seeds.shape[1])  # [n * seeds]
        self._visit(query, seeds.ravel())
        np.put_along_axis(lower, seeds, np.inf, axis=1)
        for rows in blocks(vocabulary, rows_of(len(self.sums.positions))):
            # A bound of infinity is a token that was looked at, even where the limit is infinite.
            here = lower[:, rows]  # [n, rows]
            query, token = np.nonzero((here <= self.limit[:, None]) & (here < np.inf))
            if len(query):
                self._visit(query, token + rows.start)
        return self.token, self.position, self.squared

    def _visit(self, query: NDArray[np.int64], token: NDArray[np.int64]) -> None:
        """Look at all positions of tokens, [k] each."""
        order = np.argsort(token, kind="stable")
        query, token = query[order], token[order]  # [k] each
        for part in blocks(len(token), rows_of(len(self.sums.positions))):
            self._look(query[part], token[part])

    def _look(self, query: NDArray[np.int64], token: NDArray[np.int64]) -> None:
        rows, row = np.unique(token, return_inverse=True)  # [rows], [k]
        table = self.sums._table(rows)[row]  # [k, positions]
        values = self.sums._values(self.a[query, token], self.b[query], table)  # [k, positions]
        if values.shape[1] > 1 and np.isinf(self.limit[query]).any():
            # The second least value of a token: two pairs are no farther.
            second = np.partition(values, 1, axis=1)[:, 1]  # [k]
            np.minimum.at(self.limit, query, second + 2 * self.off[query])
        near, position = np.nonzero(values <= self.limit[query, None])  # [pairs] each
        for part in blocks(len(near), rows_of(self.sums.d_model)):
            self._measure(query[near[part]], token[near[part]], position[part])

    def _measure(
        self, query: NDArray[np.int64], token: NDArray[np.int64], position: NDArray[np.int64]
    ) -> None:
        """Measure pairs [k], and keep the two nearest of each query."""
        difference = self.x[query] - self.sums.vectors(token, position)  # [k, d_model]
        n = len(self.x)
        query = np.concatenate([np.repeat(np.arange(n), 2), query])  # [2 n + k]
        token = np.concatenate([self.token.ravel(), token])  # [2 n + k]
        position = np.concatenate([self.position.ravel(), position])  # [2 n + k]
        squared = np.square(difference).sum(axis=1)  # [k]
        squared = np.concatenate([self.squared.ravel(), squared])  # [2 n + k]
        order = np.lexsort((position, token, squared, query))
        first = order[np.searchsorted(query[order], np.arange(n))[:, None] + [0, 1]]  # [n, 2]
        self.token, self.position = token[first], position[first]
        self.squared = squared[first]
        limit = self.squared[:, 1] - self.shared + self.off  # [n]
        np.minimum(self.limit, limit, out=self.limit)


def nearest_rows(
    x: ArrayLike, table: ArrayLike, offset: ArrayLike, eps: float | None = None
) -> NDArray[np.int64]:
    """The row of a table that is nearest to each query, the other summand being a constant.

    Parameters
    ----------
    x, table
        [n, d_model] and [rows, d_model].
    offset
        [d_model]: what is added to every row, such as the mean of the other table.
    eps
        Of the layer normalisation of the rows after that; None for none.

    Returns
    -------
    int64 [n].
    """
    x, table = np.asarray(x, np.float64), np.asarray(table)  # [n, d_model], [rows, d_model]
    best = np.full(len(x), np.inf)  # [n]
    nearest = np.zeros(len(x), np.int64)  # [n]
    for rows in blocks(len(table), rows_of(max(len(x), table.shape[1]))):
        block = table[rows].astype(np.float64) + offset  # [rows, d_model]
        if eps is not None:
            block = layer_norm(block, eps)
        squared = np.square(block).sum(axis=1) - 2 * x @ block.T  # [n, rows]
        least = squared.min(axis=1)  # [n]
        closer = least < best  # [n]
        nearest[closer] = squared.argmin(axis=1)[closer] + rows.start
        best[closer] = least[closer]
    return nearest


class Shares(NamedTuple):
    """Shares of pairs whose token, whose position, and of which both are read back."""

    token: Estimate
    position: Estimate
    both: Estimate


class Level(NamedTuple):
    """What is read back at one level of noise, by three decoders.

    Attributes
    ----------
    noise
        Standard deviation, in units of the root mean square of the entries of the sums.
    joint
        Of the nearest of all sums.
    alone
        Of the nearest row of either table, as if nothing was added to it.
    mean
        The same, as if the mean of the other table was added to it.
    margin
        float64 [n]: by how much the second-nearest sum is farther than the nearest.
    """

    noise: float
    joint: Shares
    alone: Shares
    mean: Shares
    margin: Floats


def noise_curve(
    sums: Sums,
    token: ArrayLike,
    position: ArrayLike,
    noise: Sequence[float],
    draws: ArrayLike,
    confidence: float,
) -> list[Level]:
    """How often sums of embeddings are read back through noise, by three decoders.

    x = sum + noise · r · draws, where r is the root mean square of all entries of the sums that
    are decoded. The same draws are used at each level, so that levels differ by it alone.

    Parameters
    ----------
    token, position
        int [n]: the pairs that are decoded.
    draws
        [n, d_model]: standard normal.
    confidence
        Of the intervals by Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404.
    """
    token, position = np.asarray(token), np.asarray(position)  # [n] each
    clean = sums.vectors(token, position)  # [n, d_model]
    unit = np.sqrt(np.mean(np.square(clean)))
    x = np.concatenate([clean + level * unit * np.asarray(draws) for level in noise])
    decoded = sums.decode(x)
    guesses = {"joint": (decoded.token, decoded.position)}
    nothing = np.zeros(sums.d_model)  # [d_model]
    means = [table.mean(axis=0, dtype=np.float64) for table in (sums.tokens, sums.positions)]
    for name, (of_tokens, of_positions) in {"alone": (nothing, nothing), "mean": means}.items():
        guesses[name] = (
            nearest_rows(x, sums.tokens, of_positions, sums.eps),
            nearest_rows(x, sums.positions, of_tokens, sums.eps),
        )

    def shares(decoder: str, part: slice) -> Shares:
        tokens, positions = guesses[decoder]  # [levels * n] each
        is_token, is_position = tokens[part] == token, positions[part] == position  # [n] each
        hits = is_token, is_position, is_token & is_position
        return Shares(*(_proportion(right, confidence) for right in hits))

    parts = [slice(at * len(token), (at + 1) * len(token)) for at in range(len(noise))]
    return [
        Level(
            noise=float(level),
            joint=shares("joint", part),
            alone=shares("alone", part),
            mean=shares("mean", part),
            margin=decoded.runner_up[part] - decoded.distance[part],
        )
        for level, part in zip(noise, parts, strict=True)
    ]


def _proportion(hits: NDArray[np.bool_], confidence: float) -> Estimate:
    from scipy.stats import binomtest

    result = binomtest(int(hits.sum()), len(hits))
    interval = result.proportion_ci(confidence, method="exact")
    return Estimate(result.statistic, interval.low, interval.high)


def blocks(count: int, size: int) -> Iterator[slice]:
    """Slices of at most so many, in order."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def rows_of(columns: int) -> int:
    """Rows of that many numbers that are held at a time."""
    return max(1, VALUES // columns)
