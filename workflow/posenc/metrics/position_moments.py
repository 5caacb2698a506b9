"""How much of the tokens' vectors is of their position: shares, gains, directions, sources (C5).

Tokens lie in a table of documents and positions. The mean over documents at a position is partly
chance, and what documents differ in is of neither. So sums of products between positions are taken
within documents, and corrected for what the rest adds to them, as variance components of a two-way
layout are (Searle, Casella and McCulloch 1992, *Variance Components*): what is left is
of position, all else of content. Where documents are of one length, both have the right expectation
whatever the documents are; positions that only some documents reach are met by less of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate
from posenc.metrics.normalisation import interval
from posenc.metrics.readback import EPS

Floats = NDArray[np.float64]
Estimates = dict[str, Estimate | None]
"""By name; None where the data show nothing of it."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Products of the tokens' vectors, over all tokens and between positions.

    The first entry is of all documents; each other one has a document left out.

    Attributes
    ----------
    free
        float64 [1 + documents, 2]: degrees of freedom between positions, and of the rest.
    total, total_squares
        float64 [1 + documents, vectors, vectors]: products about the mean, summed over tokens and
        d_model; and [1 + documents, vectors, d_model], squares, summed over tokens alone.
    within, within_squares
        The same about the mean of each document.
    between, between_squares
        The same of the means at each position, about those of documents, weighted by their tokens.
    """

    free: Floats
    total: Floats
    total_squares: Floats
    within: Floats
    within_squares: Floats
    between: Floats
    between_squares: Floats

    @classmethod
    def of(
        cls, vectors: ArrayLike, position: ArrayLike, document: ArrayLike, by_dimension: int
    ) -> Moments:
        """Sum over tokens, document by document: large arrays are read, none is made.

        Parameters
        ----------
        vectors
            [vectors, tokens, d_model], of any float type.
        position, document
            int [tokens]: a document has one token at most at a position.
        by_dimension
            Of how many vectors, from the first, squares are kept.

        Raises
        ------
        ValueError
            If no position has two tokens of documents that have others, when a document is left out
            too; or a document has two tokens at one.
        """
        document = np.unique(document, return_inverse=True)[1]  # [tokens]
        position = np.unique(position, return_inverse=True)[1]  # [tokens]
        x = np.asarray(vectors)  # [vectors, tokens, d_model]
        counts = np.bincount(position)  # [k]
        sums = np.zeros((len(x), len(counts), x.shape[2]))  # [vectors, k, d_model]

        def products(x: Floats) -> list[Floats]:  # [vectors, rows, d_model]
            flat = x.reshape(len(x), -1)  # [vectors, rows d_model]
            leading = x[:by_dimension]
            return [flat @ flat.T, np.einsum("vnd,vnd->vd", leading, leading)]

        sizes = np.bincount(document)  # [documents]
        owns = np.split(np.argsort(document, kind="stable"), np.cumsum(sizes)[:-1])
        means = np.stack([x[:, own].mean(axis=1, dtype=np.float64) for own in owns], axis=1)
        means -= (sizes[:, None] * means).sum(axis=1, keepdims=True) / len(position)
        of_documents = np.sqrt(sizes)[:, None] * means  # [vectors, documents, d_model]
        apart, own_within = products(of_documents), []
        for own in owns:
            at, centred = position[own], _centred(x[:, own])  # [own], [vectors, own, d_model]
            if len(np.unique(at)) < len(at):
                raise ValueError("a document has two tokens at one position")
            sums[:, at] += centred
            own_within.append(products(centred))
        within = [sum(part) for part in zip(*own_within, strict=True)]
        weighted = sums / np.sqrt(counts)[:, None]  # [vectors, k, d_model]
        between = products(weighted)
        total = [a + w for a, w in zip(apart, within, strict=True)]
        k, n = len(counts) - 1, len(position) - len(owns)
        entries: list[tuple] = [((k, n - k), *total, *within, *between)]
        for index, (own, gone) in enumerate(zip(owns, own_within, strict=True)):
            at, left = position[own], _centred(x[:, own])  # [own], [vectors, own, d_model]
            fewer = counts[at] - 1  # [own]
            left *= -1
            left += sums[:, at]
            # Of a position that no other document has, rounding alone would be left.
            left *= np.where(fewer > 0, 1 / np.sqrt(np.maximum(fewer, 1)), 0)[:, None]
            old, new = products(weighted[:, at]), products(left)
            of_document = of_documents[:, index : index + 1]  # [vectors, 1, d_model]
            # The mean of those that stay moves by this, over the root of their tokens.
            moved = of_document * np.sqrt(len(own) / max(len(position) - len(own), 1))
            others = zip(apart, products(of_document), products(moved), strict=True)
            rest = [a - o - m for a, o, m in others]
            within_left = [w - g for w, g in zip(within, gone, strict=True)]
            between_left = [b - o + w for b, o, w in zip(between, old, new, strict=True)]
            total_left = [a + w for a, w in zip(rest, within_left, strict=True)]
            k = len(counts) - int(np.count_nonzero(fewer == 0)) - 1
            n = len(position) - len(own) - (len(owns) - 1)
            entries.append(((k, n - k), *total_left, *within_left, *between_left))
        moments = cls(*map(np.array, zip(*entries, strict=True)))
        if np.any(moments.free[:, 1] <= 0):
            raise ValueError(
                "no position has two tokens of documents that have others: nothing is known within "
                "positions"
            )
        return moments

    @property
    def position(self) -> Floats:
        """Products that are of position, less what chance adds, as :attr:`total`."""
        of_rest = (self.free[:, 0] / self.free[:, 1])[:, None, None]
        return self.between - of_rest * (self.within - self.between)

    @property
    def content(self) -> Floats:
        """Products that are not of position, as :attr:`total`."""
        return self.total - self.position

    def shares(self, vector: int) -> Floats:
        """Share of the variance between positions, mean over d_model: [1 + documents].

        Raises
        ------
        ValueError
            If the vector is the same for all tokens.
        """
        total, within, between = (
            squares[:, vector]
            for squares in (self.total_squares, self.within_squares, self.between_squares)
        )  # [1 + documents, d_model] each
        varies = total[0] > EPS * total[0].max()  # [d_model]
        if not varies.any():
            raise ValueError("all hidden states are the same: they have no variance")
        of_rest = (self.free[:, 0] / self.free[:, 1])[:, None]
        of_position = between - of_rest * (within - between)  # [1 + documents, d_model]
        return (of_position[:, varies] / total[:, varies]).mean(axis=1)


def _centred(x: NDArray) -> Floats:
    """Vectors of a document [vectors, tokens, d_model] less their mean over its tokens."""
    return x - x.mean(axis=1, dtype=np.float64, keepdims=True)


def estimate(values: Floats, confidence: float) -> Estimate | None:
    """The jackknife's estimate of values [1 + documents]; None where the first is not defined."""
    if not np.isfinite(values).all():
        return None
    return interval(values[0], values[1:], confidence)


class MapEffect(NamedTuple):
    """What a map does to position, and to content.

    Attributes
    ----------
    between
        Shares of the variance between positions: ``input``, ``output``, and that of the output
        between ``shuffled`` positions.
    shares
        Of the variance of the output that of the first source, that of the ``rest``, and
        ``shared``, twice their covariance: 1 together.
    gain, cosine
        What is left of the input's part, along itself, per unit; and the cosine of that part of the
        output with it: of ``position``, of ``content``, and of the means at ``shuffled`` positions,
        which are means of content and not corrected for chance. ``gain`` has ``relative``, that of
        position over that of content.
    sources, content_sources
        Of each source its share of the position's part of the output, that is its product with the
        whole part over the whole's square, and the same of content: 1 together.
    """

    between: Estimates
    shares: Estimates
    gain: Estimates
    cosine: Estimates
    sources: Estimates
    content_sources: Estimates


def of_map(
    vectors: ArrayLike, position: ArrayLike, shuffled: ArrayLike, document: ArrayLike,
    names: Sequence[str], confidence: float,
) -> MapEffect:  # fmt: skip
    """What a map such as a normalisation does to position, and to content.

    Parameters
    ----------
    vectors
        [2 + sources, tokens, d_model]: its input, its output, and what this is the sum of.
    position, shuffled, document
        int [tokens]; ``shuffled`` are positions that are not the tokens' own.
    names
        Of the sources.
    confidence
        Of the intervals by leaving one document out at a time.
    """
    moments = Moments.of(vectors, position, document, 2)
    null = Moments.of(np.asarray(vectors)[:2], shuffled, document, 2)
    of_position, of_content, total = moments.position, moments.content, moments.total
    along = [_along(products) for products in (of_position, of_content, null.between)]

    def named(names: Sequence[str], values: Iterable[Floats]) -> Estimates:
        each = zip(names, values, strict=True)
        return {name: estimate(value, confidence) for name, value in each}

    own, both, whole = total[:, 2, 2], total[:, 2, 1], total[:, 1, 1]  # [1 + documents] each
    compared = ("position", "content", "shuffled")
    gains, cosines = zip(*along, strict=True)
    return MapEffect(
        between=named(
            ("input", "output", "shuffled"), (moments.shares(0), moments.shares(1), null.shares(1))
        ),
        shares=named(
            (names[0], "rest", "shared"),
            (own / whole, (whole - 2 * both + own) / whole, 2 * (both - own) / whole),
        ),
        gain=named((*compared, "relative"), (*gains, gains[0] / gains[1])),
        cosine=named(compared, cosines),
        sources=named(names, _sources(of_position)),
        content_sources=named(names, _sources(of_content)),
    )


def _along(products: Floats) -> tuple[Floats, Floats]:
    """Gain of the second vector along the first, and their cosine: [1 + documents] each."""
    own, both, other = products[:, 0, 0], products[:, 0, 1], products[:, 1, 1]
    own = np.where(own > 0, own, np.nan)
    return both / own, both / np.sqrt(own * np.where(other > 0, other, np.nan))


def _sources(products: Floats) -> Iterator[Floats]:
    """Products of the third vector, and of each that follows, with the second: of its square."""
    whole = products[:, 1, 1]
    whole = np.where(whole > 0, whole, np.nan)
    for index in range(2, products.shape[1]):
        yield products[:, index, 1] / whole
