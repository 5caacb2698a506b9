"""Words in another order, with the same tokens, and how much a classifier minds.

Words are moved after tokenization, as whole groups of tokens. So a document and its reordered
version hold the very same multiset of tokens, and an encoder without positions, which commutes
with permutations of its tokens, gives both the same mean of hidden states.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

SPECIAL = -1


def token_words(
    text: str, starts: ArrayLike, ends: ArrayLike, special: ArrayLike
) -> NDArray[np.int64]:
    """The number of the word, in text split at white space, that each token belongs to.

    Parameters
    ----------
    text
        The document.
    starts, ends
        int [tokens]: first character of each token, and one past its last.
    special
        bool [tokens]: added by the tokenizer, not read from the text.

    Returns
    -------
    int64 [tokens]
        :data:`SPECIAL` for special tokens. A token of white space alone belongs to the word before
        it, or to the first.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> token_words("a bc!", [0, 0, 2, 3, 0], [0, 1, 3, 5, 0], [1, 0, 0, 0, 1]).tolist()
    [-1, 0, 1, 1, -1]
    """
    starts, ends = np.asarray(starts), np.asarray(ends)  # [tokens] each
    special = np.asarray(special, bool)  # [tokens]
    if not starts.shape == ends.shape == special.shape:
        raise ValueError(f"shapes {starts.shape}, {ends.shape} and {special.shape} differ")
    begins = [word.start() for word in re.finditer(r"\S+", text)]  # [words]
    # By its end: a byte-level token may begin with the white space before its word.
    words = np.maximum(np.searchsorted(begins, ends, side="left") - 1, 0)  # [tokens]
    return np.where(special, SPECIAL, words).astype(np.int64)


def excerpt(
    special: ArrayLike, tokens: int, part: Literal["beginning", "end"]
) -> NDArray[np.int64]:
    """Places of the tokens that a document is cut to.

    Parameters
    ----------
    special
        bool [tokens]: added by the tokenizer; those are kept.
    tokens
        How many are kept at most, special ones included.
    part
        Which of the others.

    Returns
    -------
    int64 [kept]
        Rising.

    Raises
    ------
    ValueError
        If no token of the text would be left.

    Examples
    --------
    >>> excerpt([1, 0, 0, 0, 1], 4, "end").tolist()
    [0, 2, 3, 4]
    """
    special = np.asarray(special, bool)  # [tokens]
    room = tokens - int(special.sum())
    if room < 1:
        raise ValueError(f"{tokens} tokens are all special ones")
    inner = np.flatnonzero(~special)  # [tokens of the text]
    inner = inner[:room] if part == "beginning" else inner[-room:]
    return np.sort(np.concatenate([np.flatnonzero(special), inner]))


def exchanged_neighbours(
    ids: ArrayLike, words: ArrayLike, swaps: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """An order of the tokens in which pairs of neighbouring words have changed places.

    Pairs are drawn one after the other from those of different words; no word is in two of them.

    Parameters
    ----------
    ids
        int [tokens].
    words
        int [tokens]: from :func:`token_words`; a word's tokens are neighbours.
    swaps
        How many pairs; in a document with fewer, as many as were found.
    generator
        Source of the draws.

    Returns
    -------
    int64 [tokens]
        A permutation: the reordered document is ``ids[order]``. Special tokens stay. The identity
        where no two neighbouring words differ, as in a document of one word.

    Raises
    ------
    ValueError
        If ``swaps`` is less than 1.

    Examples
    --------
    >>> words = [-1, 0, 1, 1, -1]
    >>> exchanged_neighbours([9, 5, 6, 7, 8], words, 1, np.random.default_rng(0)).tolist()
    [0, 2, 3, 1, 4]
    """
    if swaps < 1:
        raise ValueError(f"swaps is {swaps}; it must be at least 1")
    ids, words = np.asarray(ids), np.asarray(words)  # [tokens] each
    groups = _groups(words)
    contents = [ids[group].tolist() for group in groups]
    free = np.ones(len(groups), bool)  # [words]
    taken: list[int] = []
    for first in generator.permutation(max(len(groups) - 1, 0)):
        if len(taken) == swaps:
            break
        if free[first] and free[first + 1] and contents[first] != contents[first + 1]:
            taken.append(int(first))
            free[first : first + 2] = False
    for first in taken:
        groups[first], groups[first + 1] = groups[first + 1], groups[first]
    return _laid_out(words, groups)


def shuffled_words(words: ArrayLike, generator: np.random.Generator) -> NDArray[np.int64]:
    """An order of the tokens in which all words are permuted at random.

    Parameters
    ----------
    words
        int [tokens]: as in :func:`exchanged_neighbours`.
    generator
        Source of the permutation.

    Returns
    -------
    int64 [tokens]
        A permutation of the tokens. Special tokens stay.
    """
    words = np.asarray(words)  # [tokens]
    groups = _groups(words)
    return _laid_out(words, [groups[place] for place in generator.permutation(len(groups))])


class Predictions(TypedDict):
    """Counts of a classifier's predictions for documents, and for their shuffled words."""

    documents: int
    correct: int
    correct_shuffled: int
    """Against the label that the document has in its own order."""
    positive: int
    """Predictions of the second label."""
    positive_shuffled: int
    changed: int
    """Documents whose two predictions differ."""


def changed_predictions(
    labels: ArrayLike, predicted: ArrayLike, reordered: ArrayLike
) -> Predictions:
    """Counts from which accuracies and :func:`order_sensitivity` follow.

    Parameters
    ----------
    labels
        bool [documents].
    predicted, reordered
        bool [documents]: a classifier's predictions for the documents, and for the same documents
        with shuffled words.

    Raises
    ------
    ValueError
        If the shapes differ, or there is no document.
    """
    labels, predicted, reordered = (
        np.asarray(array, bool) for array in (labels, predicted, reordered)
    )  # [documents] each
    if not labels.shape == predicted.shape == reordered.shape or labels.size == 0:
        raise ValueError(f"shapes {labels.shape}, {predicted.shape} and {reordered.shape} differ")
    return {
        "documents": labels.size,
        "correct": int(np.sum(predicted == labels)),
        "correct_shuffled": int(np.sum(reordered == labels)),
        "positive": int(np.sum(predicted)),
        "positive_shuffled": int(np.sum(reordered)),
        "changed": int(np.sum(predicted != reordered)),
    }


def order_sensitivity(
    documents: int, positive: int, positive_shuffled: int, changed: int
) -> float | None:
    """How often shuffling the words changes a prediction, relative to chance: 1 - kappa.

    s = d / e, where d is the share of documents whose prediction changes and
    e = p (1 - q) + q (1 - p) is what it would be, were the predictions for a document and for its
    shuffled words independent, with the same shares p and q of the second label. 0: the order of
    words is not used at all; 1: a prediction for the shuffled words tells nothing of that for the
    document. No label is used, so it is defined where a shuffled document has none, and can be
    computed for any task. Of a classifier that was not learned it says nothing of the task.

    s = 1 - kappa of Cohen (1960), https://doi.org/10.1177/001316446002000104, equation 1.

    Parameters
    ----------
    documents
        How many.
    positive, positive_shuffled
        How often the second label is predicted for documents, and for their shuffled words.
    changed
        How many predictions differ between the two.

    Returns
    -------
    float in [0, 2], or None
        None where one label is predicted throughout: then no other agreement was possible.

    Raises
    ------
    ValueError
        If the counts cannot be those of one table.

    Examples
    --------
    A detector of exchanged words that takes all shuffled documents for exchanged:

    >>> order_sensitivity(200, positive=104, positive_shuffled=200, changed=96)
    1.0
    """
    least = abs(positive - positive_shuffled)
    most = min(positive + positive_shuffled, 2 * documents - positive - positive_shuffled)
    if documents < 1 or not least <= changed <= most or (changed - least) % 2:
        raise ValueError(
            f"{changed} changes cannot lie between {positive} and {positive_shuffled} of "
            f"{documents} predictions"
        )
    p, q = positive / documents, positive_shuffled / documents
    expected = p * (1 - q) + q * (1 - p)
    return None if expected == 0 else float(changed / documents / expected)


def _groups(words: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Places of each word's tokens, word by word."""
    places = np.flatnonzero(words != SPECIAL)  # [tokens of the text]
    cuts = np.flatnonzero(np.diff(words[places])) + 1  # [words - 1]
    return np.split(places, cuts) if len(places) else []


def _laid_out(words: NDArray[np.int64], groups: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The order of all tokens when the words stand in the order of the groups."""
    order = np.arange(len(words))  # [tokens]
    if groups:
        order[words != SPECIAL] = np.concatenate(groups)
    return order
