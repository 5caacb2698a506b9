"""Words that change places: does a model prefer a text to itself in another order?

A text and its swapped form hold the same tokens, so a model of a *bag* of words gives both the same
loss and is right half of the time. A decoder without positions is no bag: its causal mask tells
each token which ones stand before it, and it predicts each token after another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.order_sensitivity import SPECIAL

TIE = 1e-3
"""Nats below which two losses of a whole text differ by rounding of float32 alone."""


def places(ids: ArrayLike, words: ArrayLike, distances: Sequence[int]) -> NDArray[np.int64]:
    """Words that can change places with the ones that stand some distances after them.

    Parameters
    ----------
    ids
        int [tokens].
    words
        int [tokens]: number of each token's word, from
        :func:`posenc.metrics.order_sensitivity.token_words`.
    distances
        In words; each place does for all of them.

    Returns
    -------
    int64 [places]: rising, counted from the first word of the text. Neither word is the first or
    the last, which nothing announces or which may be cut, and the two differ.

    Examples
    --------
    >>> places([9, 5, 6, 6, 7, 8], [-1, 0, 1, 2, 3, 4], [1]).tolist()
    [2]
    """
    ids = np.asarray(ids)  # [tokens]
    contents = [tuple(ids[begin:end]) for begin, end in _spans(words)]
    return np.array(
        [
            place
            for place in range(1, len(contents) - 1 - max(distances))
            if all(contents[place] != contents[place + distance] for distance in distances)
        ],
        np.int64,
    )


def exchanged(words: ArrayLike, first: int, second: int) -> NDArray[np.int64]:
    """The order of the tokens after two words have changed places.

    Parameters
    ----------
    words
        int [tokens]: as in :func:`places`.
    first, second
        Which words, counted from the first of the text; ``first`` stands before ``second``.

    Returns
    -------
    int64 [tokens]: a permutation; the text becomes ``ids[order]``, with its words whole.

    Raises
    ------
    ValueError
        If ``first`` does not stand before ``second``, or the text has fewer words.

    Examples
    --------
    >>> exchanged([-1, 0, 1, 1, 2, 3], 1, 2).tolist()
    [0, 1, 4, 2, 3, 5]
    """
    spans, tokens = _spans(words), np.arange(len(np.asarray(words)))
    if not 0 <= first < second < len(spans):
        raise ValueError(f"words {first} and {second} are no two of {len(spans)} in order")
    (begin, end), (later, last) = spans[first], spans[second]
    return np.concatenate(
        [tokens[:begin], tokens[later:last], tokens[end:later], tokens[begin:end], tokens[last:]]
    )


def preferred(margins: ArrayLike) -> NDArray[np.float64]:
    """Whether the text is preferred to its swapped form.

    Parameters
    ----------
    margins
        [...]: loss of the swapped form less that of the text, both summed over all tokens, nats.

    Returns
    -------
    float64 [...]: 1 where it is, 0 where the swapped form is, 1/2 where they differ by less than
    :data:`TIE`, as for a bag of words.

    Examples
    --------
    >>> preferred([0.5, -0.5, 0.0]).tolist()
    [1.0, 0.0, 0.5]
    """
    margins = np.asarray(margins, np.float64)  # [...]
    return np.where(np.abs(margins) < TIE, 0.5, (margins > 0).astype(np.float64))


def _spans(words: ArrayLike) -> list[tuple[int, int]]:
    """First token of each word, and the one after its last."""
    words = np.asarray(words)  # [tokens]
    edges = np.flatnonzero(np.diff(words, prepend=SPECIAL, append=SPECIAL))  # [edges]
    return [
        (int(begin), int(end))
        for begin, end in itertools.pairwise(edges)
        if words[begin] != SPECIAL
    ]
