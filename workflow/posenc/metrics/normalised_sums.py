"""Reading token and position back from the layer normalisation of their sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.norms import layer_norm
from posenc.metrics.readback import EPS, VALUES, Floats, Sums, blocks, rows_of


class NormalisedSums(Sums):
    """All layer-normalised sums LN(W_v + P_q), without gain and bias, searched exactly.

    With u = ||W_v + P_q||² of the centred vectors and s = (u / d + eps)^(-1/2), LN(W_v + P_q) is
    s (W_v + P_q), centred; ||y - LN||² = ||y||² + d - d eps s² - 2 s (y·W_v + y·P_q). With eps = 0
    the nearest has the greatest cosine. Gain and bias are known and can be undone before.
    Tables are those of :class:`Sums`. ValueError in the search if eps is 0 and a sum is constant.
    """

    def __init__(self, tokens: ArrayLike, positions: ArrayLike, eps: float) -> None:
        self.eps = eps
        super().__init__(tokens, positions)

    def vectors(self, token: ArrayLike, position: ArrayLike) -> Floats:
        """The normalised sums of pairs, float64 [n, d_model]."""
        assert self.eps is not None
        return layer_norm(super().vectors(token, position), self.eps)

    def _prepare(self) -> None:
        self._centred = self.positions - self.positions.mean(axis=1, keepdims=True)
        self._position_norm = np.square(self._centred).sum(axis=1)  # [positions], squared
        self._bound = np.empty((len(self._groups), len(self.tokens)))  # [groups, vocabulary]
        longest = 0.0
        for rows in blocks(len(self.tokens), rows_of(len(self.positions))):
            most = np.maximum.reduceat(self._table(rows), self._groups, axis=1)
            self._bound[:, rows] = most.T
            longest = max(longest, float(np.square(super()._rows(rows)).sum(axis=1).max()))
        self._scale = float(np.sqrt(longest) + np.linalg.norm(self.positions, axis=1).max())

    def _rows(self, rows: slice | NDArray[np.int64]) -> Floats:
        vectors = super()._rows(rows)  # [rows, d_model]
        return vectors - vectors.mean(axis=1, keepdims=True)

    def _table(self, rows: slice | NDArray[np.int64]) -> Floats:
        tokens = self._rows(rows)  # [rows, d_model]
        u = 2 * tokens @ self._centred.T + np.square(tokens).sum(axis=1)[:, None]
        u += self._position_norm  # [rows, positions]
        # Rounding can pass 0; the floor keeps s finite, and the rounding's bound is then infinite.
        return 1 / np.sqrt(np.maximum(u / self.d_model + self.eps, 1e-200))

    def _query(self, x: Floats) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        own = np.linalg.norm(x, axis=1)  # [n]
        a = np.empty((len(x), len(self.tokens)))  # [n, vocabulary]
        for rows in blocks(len(self.tokens), rows_of(self.d_model)):
            a[:, rows] = x @ self._rows(rows).T
        return a, x @ self._centred.T, np.square(own) + self.d_model, self._rounding(own)

    def _rounding(self, own: Floats) -> Floats:
        """How far rounding may move a value, [n]: in u, which moves s, and in the products."""
        d, scale, unit = self.d_model, self._scale, 8 * (self.d_model + 8) * EPS
        # The least u / d + eps, less what rounding may have added to it.
        least = 1 / self._bound.max() ** 2 - unit * scale**2 / d
        if least <= 0:
            return np.full(len(own), np.inf)
        s = 1 / np.sqrt(least)
        slope = 2 * own * scale + 2 * d * self.eps * s  # [n], of the value by s
        moved = s**3 * unit * scale**2 / (2 * d)
        radius = own + np.sqrt(d)  # [n]
        return slope * moved + unit * radius * (radius + s * scale)

    def _lower(self, a: Floats, b: Floats) -> Floats:
        most = np.maximum.reduceat(b, self._groups, axis=1)  # [n, groups]
        lower = np.empty_like(a)  # [n, vocabulary]
        for rows in blocks(a.shape[1], max(1, VALUES // (4 * len(a)))):
            # A product below 0 is bounded by 0, so that the greatest s alone is needed.
            best = np.zeros((len(a), rows.stop - rows.start))  # [n, rows]
            for group, bound in enumerate(self._bound[:, rows]):
                product = a[:, rows] + most[:, group, None]  # [n, rows]
                product *= bound
                np.maximum(best, product, out=best)
            s = self._bound[:, rows].max(axis=0)  # [rows]
            lower[:, rows] = -self.d_model * self.eps * np.square(s) - 2 * best
        return lower

    def _values(self, a: Floats, b: Floats, table: Floats) -> Floats:
        product = 2 * (a[:, None] + b)  # [k, positions]
        product += self.d_model * self.eps * table
        product *= table
        return np.negative(product, out=product)
