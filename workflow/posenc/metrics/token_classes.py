"""Which class each token of a text is in: its word, its last occurrence, its place, its surprisal.

Classes are read off the text and its tokens alone, before any model runs.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

PUNCTUATION, FUNCTION, CONTENT, CONTINUATION = range(4)
WORDS = ("punctuation", "function word", "content word", "continuation of a word")
NEVER = 0
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_APOSTROPHE = re.compile(r"['’]")
_SENTENCE = re.compile(r"[.!?]+[\"'”’)\]]*\s+|\n+")


def word_classes(
    text: str, starts: ArrayLike, ends: ArrayLike, special: ArrayLike
) -> NDArray[np.int64]:
    """What each token is to its word.

    Parameters
    ----------
    text
        The document.
    starts, ends
        int [tokens]: first character of each token, and one past its last; white space before a
        word may belong to its first token.
    special
        bool [tokens]: added by the tokenizer, not read from the text.

    Returns
    -------
    int64 [tokens]
        Places in :data:`WORDS`; -1 for special tokens. Without a letter or digit a token is
        punctuation. Where a letter or digit stands right before it, it continues a word. Otherwise
        it begins one, which is a function word if scikit-learn's ``ENGLISH_STOP_WORDS`` have it,
        or the part of it before an apostrophe ("he's", "can't", "isn't").

    Examples
    --------
    >>> places = word_classes("It isn't dull!", [0, 2, 8, 11, 13], [2, 8, 11, 13, 14], [0] * 5)
    >>> [WORDS[place] for place in places[:3]]
    ['function word', 'function word', 'content word']
    >>> [WORDS[place] for place in places[3:]]
    ['continuation of a word', 'punctuation']
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words = [word.span() for word in _WORD.finditer(text)]  # [words] of two
    begins = np.array([begin for begin, _ in words] or [0])  # [words]
    classes = []
    for start, end, is_special in zip(
        np.asarray(starts).tolist(), np.asarray(ends).tolist(), np.asarray(special), strict=True
    ):
        own = text[start:end].lstrip()
        first = end - len(own)
        letter = re.search(r"\w", own)
        if is_special:
            classes.append(-1)
        elif letter is None:
            classes.append(PUNCTUATION)
        elif re.match(r"\w", text[first - 1 : first]):
            classes.append(CONTINUATION)
        else:
            place = np.searchsorted(begins, first + letter.start(), side="right") - 1
            begin, stop = words[place]
            whole = text[begin:stop].lower()
            before, *after = _APOSTROPHE.split(whole)
            # "can't" begins with "can", and "isn't" with "is".
            forms = {whole, before, before.removesuffix("n")} if after else {whole}
            known = ENGLISH_STOP_WORDS & forms
            is_begin = begin >= first
            classes.append((FUNCTION if known else CONTENT) if is_begin else CONTINUATION)
    return np.array(classes, np.int64)


def last_seen(ids: ArrayLike) -> NDArray[np.int64]:
    """How many tokens ago each token was there before, int64 [tokens]; :data:`NEVER` if it was not.

    Parameters
    ----------
    ids
        int [tokens].

    Examples
    --------
    >>> last_seen([5, 6, 5, 5]).tolist()
    [0, 0, 2, 1]
    """
    last: dict[int, int] = {}
    gaps = []
    for place, token in enumerate(np.asarray(ids).tolist()):
        gaps.append(place - last[token] if token in last else NEVER)
        last[token] = place
    return np.array(gaps, np.int64)


def in_sentence(text: str, ends: ArrayLike, special: ArrayLike) -> NDArray[np.int64]:
    """The place of each token in its sentence, from 0; -1 for special tokens.

    A sentence ends with a full stop, exclamation or question mark that white space follows, or with
    its line: no abbreviation is known.

    Parameters
    ----------
    text
        The document.
    ends, special
        As in :func:`word_classes`.

    Returns
    -------
    int64 [tokens]

    Examples
    --------
    >>> in_sentence("No. It is.", [0, 2, 3, 6, 9, 10], [1, 0, 0, 0, 0, 0]).tolist()
    [-1, 0, 1, 0, 1, 2]
    """
    ends, special = np.asarray(ends), np.asarray(special, bool)  # [tokens] each
    borders = [border.end() for border in _SENTENCE.finditer(text)]  # [sentences - 1]
    # By its last character: a token may begin with the white space before its sentence.
    sentence = np.searchsorted(borders, ends - 1, side="right")  # [tokens]
    place = np.full(len(ends), -1, np.int64)
    for number in np.unique(sentence[~special]):
        own = (sentence == number) & ~special  # [tokens]
        place[own] = np.arange(own.sum())
    return place


def levels_of(values: ArrayLike, edges: ArrayLike) -> NDArray[np.int64]:
    """The interval of each value, int64: 0 below the first edge, 1 from there on, and so forth."""
    return np.searchsorted(np.asarray(edges), np.asarray(values), side="right")
