"""Means of documents that come in categories: intervals over both, and do categories differ?

Questions of one category are alike, as the tokens of one document are: an interval that resamples
documents alone speaks of these categories, one that resamples categories too of others like them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, Seed, ratio_bootstrap
from posenc.metrics.recovery import PairedMeans

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def has_categories(categories: Sequence[str | None]) -> bool:
    """Whether each document has a category, and not all have the same."""
    return None not in categories and len(set(categories)) > 1


def two_level_counts(categories: ArrayLike, samples: int, seed: Seed) -> Integers:
    """How often each document is drawn when categories are resampled, and documents within them.

    Of C categories C are drawn with replacement, and from each draw of one with n documents, n with
    replacement: the two-stage bootstrap of Davison and Hinkley (1997), *Bootstrap Methods and their
    Application*, section 3.8.

    Parameters
    ----------
    categories
        [documents]: the category of each.
    samples
        Number of resamples.
    seed
        Seed of the generator.

    Returns
    -------
    int64 [samples, documents]. Rows do not all have the same sum: categories differ in size.
    """
    codes = np.unique(np.asarray(categories), return_inverse=True)[1]  # [documents]
    sizes = np.bincount(codes)  # [categories]
    order = np.argsort(codes, kind="stable")  # [documents]: category by category
    first = np.cumsum(sizes) - sizes  # [categories]
    generator = np.random.default_rng(seed)
    counts = np.empty((samples, len(codes)), np.int64)  # [samples, documents]
    for sample in range(samples):
        drawn = generator.integers(len(sizes), size=len(sizes))  # [categories]
        of = np.repeat(drawn, sizes[drawn])  # [draws]
        places = first[of] + generator.integers(sizes[of])  # [draws]
        counts[sample] = np.bincount(order[places], minlength=len(codes))
    return counts


class CategoryMeans(PairedMeans):
    """As :class:`posenc.metrics.recovery.PairedMeans`, with replicates over categories too.

    Parameters
    ----------
    sums, tokens, samples, confidence, seed
        As there.
    categories
        [documents]: the category of each (:func:`two_level_counts`).

    Raises
    ------
    ValueError
        If there are fewer than two categories, or a resample has no token.
    """

    def __init__(
        self,
        sums: ArrayLike,
        tokens: ArrayLike,
        categories: ArrayLike,
        *,
        samples: int,
        confidence: float,
        seed: Seed,
    ) -> None:
        sums, tokens = np.asarray(sums, np.float64), np.asarray(tokens, np.float64)
        if len(np.unique(np.asarray(categories))) < 2:
            raise ValueError("there is one category: it cannot be resampled")
        counts = two_level_counts(categories, samples, seed).astype(np.float64)
        drawn = counts @ tokens  # [samples]
        if not np.all(drawn > 0):
            raise ValueError("a resample of categories has no token: too few documents")
        self.value = sums.sum(axis=0) / tokens.sum()  # [k]
        self.replicates = (counts @ sums) / drawn[:, None]  # [samples, k]
        self.confidence = confidence


@dataclass(frozen=True)
class Differences:
    """Do the means of categories differ more than chance makes them?

    Attributes
    ----------
    names
        [categories], rising.
    documents
        int64 [categories].
    mean
        [categories]: mean over tokens, with an interval over the category's documents, each at the
        level that was asked for; no width where there is one document.
    variance
        Of the means, each weighted by its documents.
    expected
        Mean of the same over permutations.
    p_value
        That the variance is as large or larger when documents change their categories.
    p_values
        [categories]: that any category is as far from the mean of all as this one, over the same
        permutations: corrected for looking at all of them.
    """

    names: NDArray[np.str_]
    documents: Integers
    mean: Estimate
    variance: float
    expected: float
    p_value: float
    p_values: Floats


def differences(
    sums: ArrayLike,
    tokens: ArrayLike,
    categories: ArrayLike,
    *,
    permutations: int,
    samples: int,
    confidence: float,
    seed: int,
) -> Differences:
    """Means by category, and tests that permute categories over documents.

    Two statistics of the same permutations: the variance of the means, for all categories together;
    and the largest √n |mean - mean of all|, for each one with a correction for all, the single-step
    maxT of Westfall and Young (1993), *Resampling-Based Multiple Testing*. The root makes
    categories of different sizes comparable. Tests are exact if documents are exchangeable, and a
    p-value is (1 + as extreme) / (1 + permutations), as Phipson and Smyth (2010,
    https://doi.org/10.2202/1544-6115.1585) have it.

    Parameters
    ----------
    sums, tokens
        [documents]: a sum over each document's tokens, such as a difference of losses in nats, and
        the tokens, positive.
    categories
        [documents].
    permutations
        How many.
    samples, confidence, seed
        Of the percentile bootstrap; the seed also of the permutations.

    Raises
    ------
    ValueError
        If there are fewer than two categories, or a document has no token.
    """
    sums, tokens = np.asarray(sums, np.float64), np.asarray(tokens, np.float64)  # [documents] each
    names, codes = np.unique(np.asarray(categories), return_inverse=True)  # codes: [documents]
    if len(names) < 2:
        raise ValueError("there is one category, and nothing to differ from")
    if not np.all(tokens > 0):
        raise ValueError("a document has no token")
    counts = np.bincount(codes)  # [categories]
    whole = sums.sum() / tokens.sum()

    def distances(order: Integers) -> Floats:
        """From the mean of all, of the documents in an order, [categories]."""
        return np.bincount(codes, sums[order]) / np.bincount(codes, tokens[order]) - whole

    def statistics(gaps: Floats) -> tuple[float, float]:
        """Variance and the largest root-weighted distance."""
        return float(counts @ gaps**2 / counts.sum()), float(np.max(np.sqrt(counts) * abs(gaps)))

    own = distances(np.arange(len(sums)))  # [categories]
    variance, _ = statistics(own)
    generator = np.random.default_rng([seed, 1])
    drawn = np.array(
        [statistics(distances(generator.permutation(len(sums)))) for _ in range(permutations)]
    )  # [permutations, 2]
    # What rounding alone makes smaller is as extreme.
    slack = 1 - 1e-12
    bounds = slack * np.sqrt(counts) * abs(own)  # [categories]
    as_far = drawn[:, 1] >= bounds[:, None]  # [categories, permutations]
    intervals = [
        ratio_bootstrap(sums[codes == code], tokens[codes == code], samples, confidence, seed)
        for code in range(len(names))
    ]
    return Differences(
        names=names,
        documents=counts,
        mean=Estimate(
            *(
                np.array([getattr(interval, part) for interval in intervals])
                for part in ("value", "low", "high")
            )
        ),
        variance=variance,
        expected=float(drawn[:, 0].mean()),
        p_value=float((1 + np.sum(drawn[:, 0] >= slack * variance)) / (1 + permutations)),
        p_values=(1 + as_far.sum(axis=1)) / (1 + permutations),
    )
