"""Repeated random tokens: what a head looks at when only order tells it where to look.

In a sequence of random tokens that is repeated once, nothing but the earlier occurrence predicts a
token of the second part. A model that copies it needs two kinds of heads in a row: one that looks
at the previous token, which is a matter of position alone, and one that looks at the token after
the earlier occurrence of its own (Elhage et al. 2021, *A mathematical framework for transformer
circuits*; Olsson et al. 2022, *In-context learning and induction heads*,
https://arxiv.org/abs/2209.11895).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def repeated(
    vocabulary: ArrayLike, sequences: int, tokens: int, seed: int
) -> NDArray[np.int64]:  # [sequences, 2 * tokens]
    """Random tokens, none of them twice, and the same again.

    Parameters
    ----------
    vocabulary
        int [types]: ids that are drawn from, all alike.
    sequences, tokens
        How many sequences, and the tokens of one before it is repeated.
    seed
        Of the draw.

    Returns
    -------
    int64 [sequences, 2 * tokens].

    Raises
    ------
    ValueError
        If the vocabulary has fewer types than a sequence takes.
    """
    types = np.unique(np.asarray(vocabulary, np.int64))  # [types]
    if len(types) < tokens:
        raise ValueError(f"{len(types)} different tokens are too few for {tokens}")
    generator = np.random.default_rng(seed)
    once = np.stack([generator.permutation(types)[:tokens] for _ in range(sequences)])
    return np.concatenate([once, once], axis=1)


def reordered(sequences: ArrayLike, seed: int) -> NDArray[np.int64]:  # [sequences, 2 * tokens]
    """The same first parts, each followed by its tokens in another order.

    A model that only knows which tokens a sequence has predicts these as well as a repetition; one
    that copies does not. No token but the first of a part follows the one that it followed before.

    Parameters
    ----------
    sequences
        int [sequences, 2 * tokens], from :func:`repeated`, of at least 4 tokens each part.
    seed
        Of the orders.

    Returns
    -------
    int64 [sequences, 2 * tokens].
    """
    sequences = np.asarray(sequences, np.int64)  # [sequences, 2 * tokens]
    generator = np.random.default_rng(seed)
    tokens = sequences.shape[1] // 2
    places = np.empty((len(sequences), tokens), np.int64)
    for row in range(len(sequences)):
        order = generator.permutation(tokens)
        while (np.diff(order) == 1).any():
            order = generator.permutation(tokens)
        places[row] = order
    again = np.take_along_axis(sequences[:, :tokens], places, axis=1)  # [sequences, tokens]
    return np.concatenate([sequences[:, :tokens], again], axis=1)


def previous_scores(patterns: ArrayLike) -> NDArray[np.float64]:
    """Mean attention to the previous token.

    Parameters
    ----------
    patterns
        [..., tokens, tokens]: attention of a query (row) to a key.

    Returns
    -------
    float64 [...]: mean over all queries but the first, which has no previous token.

    Examples
    --------
    >>> float(previous_scores([[1.0, 0.0], [0.75, 0.25]]))
    0.75
    """
    return _mean_at(np.asarray(patterns), -1, begin=1)


def induction_scores(patterns: ArrayLike, period: int) -> NDArray[np.float64]:
    """Mean attention to the token after the earlier occurrence of the query's own.

    Parameters
    ----------
    patterns
        [..., tokens, tokens]: attention of a query (row) to a key; the last ``period`` tokens
        repeat the ``period`` before them.
    period
        Tokens of a sequence before it is repeated, at least 2.

    Returns
    -------
    float64 [...]: mean over the queries of the second part, of the attention ``period - 1`` back.
    """
    patterns = np.asarray(patterns)  # [..., tokens, tokens]
    if not 2 <= period <= patterns.shape[-1] // 2:
        raise ValueError(f"{patterns.shape[-1]} tokens do not hold {period} twice")
    return _mean_at(patterns, 1 - period, begin=patterns.shape[-1] - period)


def uniform_scores(tokens: int, period: int) -> tuple[float, float]:
    """Both scores of a head that attends to all keys up to its own alike.

    Parameters
    ----------
    tokens
        Of the whole sequence.
    period
        As :func:`induction_scores` has it.

    Examples
    --------
    >>> uniform_scores(2, 1)[0]
    0.5
    """
    seen = 1 / np.arange(1, tokens + 1)  # [tokens]
    return float(seen[1:].mean()), float(seen[-period:].mean())


def _mean_at(patterns: NDArray, offset: int, begin: int) -> NDArray[np.float64]:
    """Mean of [..., query, query + offset] over queries from ``begin`` on, float64 [...]."""
    queries = np.arange(begin, patterns.shape[-1])  # [queries]
    return patterns[..., queries, queries + offset].mean(axis=-1, dtype=np.float64)
