"""What classes of tokens explain of a number per token, with the documents taken out.

A linear model: y = document + one effect per class of each factor + rest. A document has its own
mean (it is a fixed effect), so that a class that stands in hard documents is not blamed for them;
and all factors are in it at once, so that a class is not blamed for what it shares with another's.
All that the model needs are sums over each document, which a resample of documents weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, Seed, resampling_counts
from posenc.metrics.moments import sums_by_group

FEWEST = 5
"""Documents that have a class, so that one speaks of it."""


@dataclass(frozen=True)
class Effects:
    """Effects of the classes of all factors on one number per token.

    Attributes
    ----------
    mean
        [classes]: over the tokens of each class.
    adjusted
        [classes]: the same as it would be, if the class stood equally in all documents and among
        all classes of the other factors.
    share
        [classes]: share of the sum over all tokens that the tokens of the class have.
    explained
        Share of the variance within documents that all factors explain.
    alone, unique
        [factors]: the same of one factor alone, and what is lost when it is left out.

    All with percentile intervals over documents but the last three, which are values: a resample
    repeats documents, of which a model explains more than of as many different ones. NaN for a
    class that fewer than :data:`FEWEST` documents have.
    """

    mean: Estimate
    adjusted: Estimate
    share: Estimate
    explained: float
    alone: NDArray[np.float64]
    unique: NDArray[np.float64]


class ClassSums:
    """Sums over the tokens of each document, from which :class:`Effects` follow.

    Parameters
    ----------
    codes
        int [tokens, factors]: the class of each token under each factor, from 0.
    counts
        int [factors]: how many classes each factor has.
    document
        [tokens]: the document of each token.

    Raises
    ------
    ValueError
        If a class is none of its factor's.
    """

    def __init__(self, codes: ArrayLike, counts: ArrayLike, document: ArrayLike) -> None:
        codes, counts = np.asarray(codes), np.asarray(counts)  # [tokens, factors], [factors]
        if codes.min() < 0 or (codes >= counts).any():
            raise ValueError("a token has a class that is none of its factor's")
        self.first = np.concatenate([[0], np.cumsum(counts)])  # [factors + 1]
        self.document = np.unique(document, return_inverse=True)[1]  # [tokens]
        self._rows = np.zeros((len(codes), self.first[-1]))  # [tokens, classes]
        np.put_along_axis(self._rows, codes + self.first[:-1], 1.0, axis=1)
        self.of_class = sums_by_group(self._rows, self.document)  # [documents, classes]
        self.tokens = np.bincount(self.document)  # [documents]
        self._centred = self._within(self._rows)  # [tokens, classes]
        order = np.argsort(self.document, kind="stable")  # [tokens]
        parts = np.split(self._centred[order], np.cumsum(self.tokens)[:-1])
        self.gram = np.stack([part.T @ part for part in parts])  # [documents, classes, classes]
        self.known = (self.of_class > 0).sum(axis=0) >= FEWEST  # [classes]

    def effects(self, values: ArrayLike, *, samples: int, confidence: float, seed: Seed) -> Effects:
        """The effects on a number of each token.

        Parameters
        ----------
        values
            [tokens].
        samples, confidence, seed
            Of the percentile bootstrap over documents.
        """
        values = np.asarray(values, np.float64)  # [tokens]
        centred = self._within(values[:, None])[:, 0]  # [tokens]
        sums = sums_by_group(self._rows * values[:, None], self.document)  # [documents, classes]
        whole = np.bincount(self.document, values)  # [documents]
        products = self._products(centred)  # [documents, classes]

        def results(weights: NDArray[np.float64]) -> NDArray[np.float64]:
            """Of [resamples, documents]: [resamples, 3, classes]."""
            of_class = weights @ self.of_class  # [resamples, classes]
            total, tokens = weights @ whole, weights @ self.tokens  # [resamples] each
            gram = np.tensordot(weights, self.gram, 1)  # [resamples, classes, classes]
            slopes = _solved(gram, weights @ products)  # [resamples, classes]
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = (weights @ sums) / of_class  # [resamples, classes]
                share = (weights @ sums) / total[:, None]  # [resamples, classes]
            adjusted = np.empty_like(mean)  # [resamples, classes]
            for own in self._factors():
                level = (slopes[:, own] * of_class[:, own]).sum(axis=1) / tokens  # [resamples]
                adjusted[:, own] = slopes[:, own] + (total / tokens - level)[:, None]
            effects = np.stack([mean, adjusted, share], axis=1)  # [resamples, 3, classes]
            effects[np.broadcast_to((of_class == 0)[:, None], effects.shape)] = np.nan
            return effects

        value = results(np.ones((1, len(self.tokens))))[0]  # [3, classes]
        drawn = resampling_counts(len(self.tokens), samples, seed)
        replicates = np.concatenate([results(counts.astype(np.float64)) for counts in drawn])
        tail = 100 * (1 - confidence) / 2
        low, high = np.full_like(value, np.nan), np.full_like(value, np.nan)  # [3, classes] each
        if self.known.any():
            bounds = np.nanpercentile(replicates[:, :, self.known], [tail, 100 - tail], axis=0)
            low[:, self.known], high[:, self.known] = bounds  # [3, known] each
        value[:, ~self.known] = np.nan
        every = np.arange(self.first[-1])
        whole_share = self._explained(centred, products, every)
        alone = [self._explained(centred, products, own) for own in self._factors()]
        rest = [np.setdiff1d(every, own) for own in self._factors()]
        mean, adjusted, share = (Estimate(*parts) for parts in zip(value, low, high, strict=True))
        return Effects(
            mean,
            adjusted,
            share,
            explained=whole_share,
            alone=np.array(alone),
            unique=whole_share - np.array([self._explained(centred, products, o) for o in rest]),
        )

    def explained(self, values: ArrayLike) -> float:
        """As in :class:`Effects`, of a number of each token, [tokens]."""
        centred = self._within(np.asarray(values, np.float64)[:, None])[:, 0]  # [tokens]
        return self._explained(centred, self._products(centred), np.arange(self.first[-1]))

    def _products(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over each document of a number [tokens] times each class, [documents, classes]."""
        return sums_by_group(self._centred * centred[:, None], self.document)

    def _explained(
        self,
        centred: NDArray[np.float64],
        products: NDArray[np.float64],
        columns: NDArray[np.int64],
    ) -> float:
        """Share of the sum of squares of a number [tokens] that some classes explain."""
        variance = float(centred @ centred)
        if variance == 0 or not len(columns):
            return 0.0
        gram = self.gram.sum(axis=0)[np.ix_(columns, columns)]  # [columns, columns]
        moments = products.sum(axis=0)[columns]  # [columns]
        return float(moments @ _solved(gram[None], moments[None])[0]) / variance

    def _factors(self) -> list[NDArray[np.int64]]:
        """The classes of each factor."""
        return [np.arange(*ends) for ends in zip(self.first, self.first[1:], strict=False)]

    def _within(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows [tokens, k] less the mean of their document."""
        means = sums_by_group(rows, self.document) / self.tokens[:, None]  # [documents, k]
        return rows - means[self.document]


def _solved(gram: NDArray[np.float64], moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares from sums: [n, k, k] and [n, k] to [n, k], the shortest of all solutions.

    The classes of a factor sum to 1 for every token, so that there are many.
    """
    inverse = np.linalg.pinv(gram, rcond=1e-9, hermitian=True)  # [n, k, k]
    return np.einsum("nij,nj->ni", inverse, moments)


def permuted_within(document: ArrayLike, generator: np.random.Generator) -> NDArray[np.int64]:
    """An order of tokens that permutes those of each document among themselves, int64 [tokens].

    Parameters
    ----------
    document
        [tokens]: rising.
    generator
        Source of the permutation.
    """
    document = np.asarray(document)  # [tokens]
    return np.lexsort((generator.random(len(document)), document))
