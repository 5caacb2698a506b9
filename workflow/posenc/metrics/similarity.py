"""Cosine similarity of hidden states, and what it has to be compared with.

A cosine says little alone: hidden states of a Transformer fill a narrow cone, so that unrelated
tokens are similar too (anisotropy; Ethayarajh 2019, https://aclanthology.org/D19-1006). And the
states that are compared are of one token in one document, so that they share what its identity
alone gives, and the document. Four nulls are given: isotropic Gaussian vectors, random token pairs
of the same layer, pairs of different tokens in one document, and pairs of the same token in
different documents.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Seed

# Tokens converted at a time: 256 float64 rows of a few hundred dimensions stay in the cache.
_BLOCK_TOKENS = 256


def token_cosines(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Cosine of the angle between corresponding rows, computed in float64.

    The rows are converted in small blocks, so memory-mapped float16 arrays of any length can be
    passed. Equal rows give exactly 1.

    Parameters
    ----------
    x, y
        [tokens, d_model], of any float type.

    Returns
    -------
    float64 [tokens], in [-1, 1].

    Raises
    ------
    ValueError
        If the shapes differ, or a row has norm zero (its angle is undefined) or holds a value
        that is not finite. A NaN in the result would be dropped or spread by what follows.

    Examples
    --------
    >>> token_cosines([[1.0, 0.0], [1.0, 1.0]], [[0.0, 2.0], [3.0, 3.0]]).tolist()
    [0.0, 1.0]
    """
    x, y = np.asanyarray(x), np.asanyarray(y)  # [tokens, d_model] each
    if x.shape != y.shape or x.ndim != 2:
        raise ValueError(f"shapes {x.shape} and {y.shape} are not the same [tokens, d_model]")
    cosines = np.empty(len(x))  # [tokens]
    for start in range(0, len(x), _BLOCK_TOKENS):
        block = slice(start, start + _BLOCK_TOKENS)
        a, b = x[block].astype(np.float64), y[block].astype(np.float64)  # [block, d_model]
        # One square root of the product, not two: for equal rows it is exactly the numerator.
        norms = np.sqrt(np.vecdot(a, a) * np.vecdot(b, b))  # [block]
        bad = ~(np.isfinite(norms) & (norms > 0))  # [block]
        if bad.any():
            raise ValueError(
                f"token {start + int(np.argmax(bad))} has a vector of norm zero or with a value "
                f"that is not finite: its cosine is undefined"
            )
        cosines[block] = np.vecdot(a, b) / norms
    return np.clip(cosines, -1, 1, out=cosines)  # rounding can pass 1 by one unit


def random_pairs(
    document_of_token: ArrayLike, pairs: int, seed: Seed
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ordered pairs of tokens of different documents, uniformly and with replacement.

    The pairs are those of the anisotropy baseline (Ethayarajh 2019, section 3.4). Tokens of one
    document are left out, since they share its context and may share their own.

    Parameters
    ----------
    document_of_token
        int [tokens]: a number that names the document of each token, in any order.
    pairs
        Number of pairs.
    seed
        Seed of the generator.

    Returns
    -------
    (i, j)
        int64 [pairs] each: indices into ``document_of_token``.

    Raises
    ------
    ValueError
        If there are fewer than two documents.
    """
    _, document, lengths = np.unique(
        np.asarray(document_of_token), return_inverse=True, return_counts=True
    )  # [tokens], [documents]
    tokens = len(document)
    if len(lengths) < 2:
        raise ValueError("pairs of different documents need tokens of two documents at least")
    by_document = np.argsort(document, kind="stable")  # [tokens]
    starts = np.cumsum(lengths) - lengths  # [documents]
    # All admissible ordered pairs are numbered document by document, so one uniform integer
    # is one pair and none has to be rejected, however unequal the documents are.
    others = tokens - lengths  # [documents]: partners of a token
    ends = np.cumsum(lengths * others)  # [documents]
    number = np.random.default_rng(seed).integers(ends[-1], size=pairs)  # [pairs]
    drawn = np.searchsorted(ends, number, side="right")  # [pairs]: document of the first token
    number -= (ends - lengths * others)[drawn]
    first, second = np.divmod(number, others[drawn])  # [pairs] each
    second += np.where(second >= starts[drawn], lengths[drawn], 0)  # step over its document
    return by_document[starts[drawn] + first], by_document[second]


def same_token_partners(token: ArrayLike, document: ArrayLike) -> NDArray[np.int64]:
    """Count the occurrences of each token's id in other documents than its own.

    Parameters
    ----------
    token, document
        int [tokens] each: id of each token, and a number that names its document, in any order.

    Returns
    -------
    int64 [tokens].

    Examples
    --------
    >>> same_token_partners([5, 5, 8, 5], [0, 0, 0, 1]).tolist()
    [1, 1, 0, 2]
    """
    word, per_word, run, per_run = _occurrences(token, document)
    return per_word[word] - per_run[run]


def same_token_pairs(
    token: ArrayLike, document: ArrayLike, pairs: int, seed: Seed
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ordered pairs of tokens of one id in different documents, with replacement.

    The first is uniform over the tokens whose id is in another document too, so that words weigh
    as they do in a mean over tokens; the second is uniform over its partners. Uniform pairs would
    weigh a word by the square of its frequency, and be function words almost alone.

    Parameters
    ----------
    token, document
        int [tokens] each: id of each token, and a number that names its document, in any order.
    pairs
        Number of pairs.
    seed
        Seed of the generator.

    Returns
    -------
    (i, j)
        int64 [pairs] each: indices into ``token``.

    Raises
    ------
    ValueError
        If no id is in two documents.
    """
    return _pairs(token, document, pairs, seed, "no token is in two documents")


def same_document_pairs(
    token: ArrayLike, document: ArrayLike, pairs: int, seed: Seed
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ordered pairs of tokens of different ids in one document, with replacement.

    The first is uniform over the tokens whose document has another id too, the second uniform over
    its partners, as in :func:`same_token_pairs`; parameters and what is returned are the same.

    Raises
    ------
    ValueError
        If no document has two ids.
    """
    return _pairs(document, token, pairs, seed, "no document has two different tokens")


def _pairs(
    shared: ArrayLike, differing: ArrayLike, pairs: int, seed: Seed, absent: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs that have the one in common and not the other; ``absent`` says that there are none."""
    group, per_group, run, per_run = _occurrences(shared, differing)
    partners = per_group[group] - per_run[run]  # [tokens]
    candidates = np.flatnonzero(partners)  # [tokens that have a partner]
    if len(candidates) == 0:
        raise ValueError(f"{absent}: there is no such pair")
    generator = np.random.default_rng(seed)
    i = candidates[generator.integers(len(candidates), size=pairs)]  # [pairs]
    # Sorted by run, the tokens of a group stand together, and so do those of one run in them: what
    # is drawn is a place among the group's tokens, less the run of the first token.
    by_run = np.argsort(run, kind="stable")  # [tokens]
    begin_of_group = np.cumsum(per_group) - per_group  # [groups]
    begin_of_run = np.cumsum(per_run) - per_run  # [runs]
    place = begin_of_group[group[i]] + generator.integers(partners[i])  # [pairs]
    place += np.where(place >= begin_of_run[run[i]], per_run[run[i]], 0)  # step over the run
    return i, by_run[place]


def rescaled(cosine: ArrayLike, baseline: ArrayLike) -> NDArray[np.float64]:
    """Cosine on a scale where random token pairs are 0 and equality is 1.

    (cosine - baseline) / (1 - baseline). Ethayarajh (2019) subtracts the baseline; dividing by
    what is left up to 1 makes layers of different anisotropy comparable.

    Parameters
    ----------
    cosine, baseline
        Cosines, of shapes that broadcast.

    Returns
    -------
    float64 of the broadcast shape, at most 1; negative below the baseline.

    Raises
    ------
    ValueError
        If a baseline is 1: all vectors of the layer then have one direction, and the scale has
        no length.

    Examples
    --------
    >>> float(rescaled(0.75, 0.5))
    0.5
    """
    cosine, baseline = np.asarray(cosine, np.float64), np.asarray(baseline, np.float64)
    if np.any(baseline >= 1):
        raise ValueError("the baseline cosine is 1: the layer's vectors have all one direction")
    return (cosine - baseline) / (1 - baseline)


def gaussian_null_density(t: ArrayLike, d: int) -> NDArray[np.float64]:
    """Density of the cosine of two independent isotropic Gaussian vectors.

    (1 + cosine) / 2 follows Beta((d - 1) / 2, (d - 1) / 2), so the density is
    (1 - t²)^((d - 3) / 2) / B(1 / 2, (d - 1) / 2). Muirhead (1982), *Aspects of Multivariate
    Statistical Theory*, section 1.5.

    Parameters
    ----------
    t
        Cosines, of any shape.
    d
        Dimension of the vectors, 2 at least.

    Returns
    -------
    float64 of the shape of ``t``; 0 outside [-1, 1]. For d = 2 it is infinite at -1 and 1.

    Raises
    ------
    ValueError
        If ``d`` is less than 2.
    """
    from scipy.special import betaln, xlog1py

    _check_dimension(d)
    t = np.asarray(t, np.float64)
    inside = np.abs(t) <= 1
    squares = np.where(inside, t * t, 0.0)
    # The logarithm, since for d in the hundreds both factors leave the range of floats.
    logarithm = xlog1py((d - 3) / 2, -squares) - betaln(0.5, (d - 1) / 2)
    return np.where(inside, np.exp(logarithm), 0.0)


def gaussian_null_sd(d: int) -> float:
    """Standard deviation of the cosine of two independent isotropic Gaussian vectors.

    Exactly 1 / √d: the squares of the d coordinates of a random unit vector have the same mean
    and the sum 1. The mean of the cosine is 0.

    Raises
    ------
    ValueError
        If ``d`` is less than 2.

    Examples
    --------
    >>> gaussian_null_sd(64)
    0.125
    """
    _check_dimension(d)
    return float(d) ** -0.5


def histogram(values: ArrayLike, bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Histogram of cosines over [-1, 1], as a density.

    Parameters
    ----------
    values
        [tokens]: cosines.
    bins
        Number of bins of equal width.

    Returns
    -------
    (edges, density)
        float64 [bins + 1] and [bins]; the density integrates to 1.

    Raises
    ------
    ValueError
        If there are no values, or one lies outside [-1, 1] or is NaN.
    """
    values = np.asarray(values, np.float64)  # [tokens]
    if values.size == 0 or not np.all(np.abs(values) <= 1):
        raise ValueError("a histogram of cosines needs values, all of them in [-1, 1]")
    density, edges = np.histogram(values, bins=bins, range=(-1, 1), density=True)
    return edges, density  # [bins + 1], [bins]


def _occurrences(shared: ArrayLike, differing: ArrayLike) -> tuple[NDArray[np.int64], ...]:
    """Number groups, of tokens that share the one, and runs, of those that share both.

    Runs are numbered group by group. Returns the group of each token, the tokens of each group, the
    run of each token and the tokens of each run: int64 [tokens], [groups], [tokens], [runs].
    """
    _, group, per_group = np.unique(
        np.asarray(shared), return_inverse=True, return_counts=True
    )  # [tokens], [groups]
    others, other = np.unique(np.asarray(differing), return_inverse=True)  # [tokens]
    _, run, per_run = np.unique(
        group * len(others) + other, return_inverse=True, return_counts=True
    )  # [tokens], [runs]
    return group, per_group, run, per_run


def _check_dimension(d: int) -> None:
    if d < 2:
        raise ValueError(f"d is {d}; the cosine has a density from 2 dimensions on")
