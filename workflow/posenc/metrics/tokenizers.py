"""What tokenizers make of text, and what their tokens cost in bits per byte.

A model over tokens and a spelling of what the tokenizer does not know are together a code of the
text: its length in bits per byte of text compares tokenizers, which perplexity per token does not.
Gao et al. (2020), section 3.1, https://arxiv.org/abs/2101.00027.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FLAT = 0.01
"""A training whose :func:`late_fall` is smaller is called flat at its end."""
_BYTE_BITS = 8


def spelling_bits(lengths: ArrayLike) -> float:
    """Bits of the spelling of pieces: 8 (n + 1) of one with n bytes.

    Each is spelled as its UTF-8 bytes and one that ends it: no byte of UTF-8 text is 255.

    Parameters
    ----------
    lengths
        int [pieces]: UTF-8 bytes of each.

    Raises
    ------
    ValueError
        If a length is negative.
    """
    lengths = np.asarray(lengths, np.int64)  # [pieces]
    if np.any(lengths < 0):
        raise ValueError("a piece cannot have fewer than 0 bytes")
    return float(_BYTE_BITS * (lengths + 1).sum())


def late_fall(steps: ArrayLike, losses: ArrayLike) -> float:
    """How much a training still learned: the share by which its loss fell in its last third.

    (lowest before - lowest since) / lowest before, where the last third begins after two thirds of
    the steps that were taken. Negative where no loss since is as low.

    Parameters
    ----------
    steps
        int [validations]: steps taken, rising.
    losses
        [validations]: the validation loss then, positive.

    Raises
    ------
    ValueError
        If no validation is before the last third.

    Examples
    --------
    >>> late_fall([10, 20, 30], [2.0, 1.0, 0.75])
    0.25
    """
    steps, losses = np.asarray(steps), np.asarray(losses, np.float64)  # [validations] each
    is_late = 3 * steps > 2 * steps[-1]  # [validations]
    if is_late.all():
        raise ValueError("a training that is validated once tells nothing of its fall")
    before = losses[~is_late].min()
    return float((before - losses[is_late].min()) / before)


def code_length(nll: float, unknown_bytes: ArrayLike, utf8_bytes: int) -> dict[str, float]:
    """Length of the code of a text over its bytes.

    (Σ nll / log 2 + Σ 8 (n + 1)) / bytes: all tokens by the model, with the unknown token where
    there is one, and after it the spelling of the n bytes that it stands for.

    Parameters
    ----------
    nll
        Sum of the negative log-likelihoods of all tokens, the one that ends each text included,
        nats.
    unknown_bytes
        int [unknown tokens]: UTF-8 bytes that each stands for.
    utf8_bytes
        Of the text.

    Returns
    -------
    dict
        ``model`` and ``spelling``, and their sum ``total``.

    Raises
    ------
    ValueError
        If there are no bytes.

    Examples
    --------
    A byte guessed among 256 costs 8 bits:

    >>> code_length(3 * math.log(256), [], 3)["total"]
    8.0
    """
    if utf8_bytes < 1:
        raise ValueError("a text without bytes has no bits per byte")
    model = nll / math.log(2) / utf8_bytes
    spelling = spelling_bits(unknown_bytes) / utf8_bytes
    return {"model": model, "spelling": spelling, "total": model + spelling}


def uniform_nll(tokens: int, vocabulary: int) -> float:
    """Negative log-likelihood of tokens by a uniform guess, n log V nats: the level of no model."""
    return tokens * math.log(vocabulary)


def fertility(tokens: int, texts: Sequence[str]) -> dict[str, float]:
    """Tokens a word, a character and a byte of text.

    Parameters
    ----------
    tokens
        Of all texts.
    texts
        Documents.

    Returns
    -------
    dict
        ``per_word``: a word is what white space parts, which in Japanese is a paragraph;
        ``per_character``: a character is a Unicode code point; ``per_byte``: of UTF-8.
        Rust et al. (2021), section 3.2, https://aclanthology.org/2021.acl-long.243.

    Raises
    ------
    ValueError
        If the texts have no word.
    """
    counts = sizes(texts)
    if not counts["words"]:
        raise ValueError("texts without a word have no fertility")
    return {
        "per_word": tokens / counts["words"],
        "per_character": tokens / counts["characters"],
        "per_byte": tokens / counts["bytes"],
    }


def sizes(texts: Sequence[str]) -> dict[str, int]:
    """Documents, words between white space, characters and UTF-8 bytes of texts."""
    return {
        "documents": len(texts),
        "words": sum(len(text.split()) for text in texts),
        "characters": sum(map(len, texts)),
        "bytes": sum(len(text.encode()) for text in texts),
    }


def byte_offsets(text: str, characters: ArrayLike) -> NDArray[np.int64]:
    """UTF-8 bytes before each of some characters.

    Parameters
    ----------
    text
        A document.
    characters
        int [n], each in 0 ... len(text): the last is the end.

    Returns
    -------
    int64 [n].

    Examples
    --------
    >>> byte_offsets("aé日", [0, 1, 2, 3]).tolist()
    [0, 1, 3, 6]
    """
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)  # [characters]
    width = 1 + (points > 0x7F) + (points > 0x7FF) + (points > 0xFFFF)  # [characters]
    before = np.concatenate([[0], np.cumsum(width)])  # [characters + 1]
    return before[np.asarray(characters, np.int64)]


def segment_of(starts: ArrayLike, size: int) -> NDArray[np.int64]:
    """Segment of each token when a text is cut every so many bytes, by the token's first byte.

    The segments of a text are the same whatever the tokens are; a token that is longer than one
    leaves the next ones empty.

    Parameters
    ----------
    starts
        int [tokens]: bytes before each token, not falling.
    size
        Bytes of a segment.

    Returns
    -------
    int64 [tokens].

    Raises
    ------
    ValueError
        If a start is negative or lies before that of the token before it.
    """
    starts = np.asarray(starts, np.int64)  # [tokens]
    if np.any(np.diff(starts, prepend=0) < 0):
        raise ValueError("tokens must be in the order of the text")
    return starts // size


def change(originals: Sequence[str], changed: Sequence[str]) -> dict[str, float]:
    """How much a normalisation changes.

    Parameters
    ----------
    originals, changed
        [documents] each: before and after.

    Returns
    -------
    dict
        ``documents``: share that is not the same after; ``characters``: share of the original's
        characters that NFKC writes otherwise, each by itself, 0 where no document is changed;
        ``bytes``: bytes after over bytes before.

    Raises
    ------
    ValueError
        If the lengths differ, or there is no text.
    """
    counts = Counter(character for text in originals for character in text)
    if len(originals) != len(changed) or not counts:
        raise ValueError(f"{len(originals)} texts cannot be compared with {len(changed)}")
    differing = sum(a != b for a, b in zip(originals, changed, strict=True))
    rewritten = sum(n for c, n in counts.items() if not unicodedata.is_normalized("NFKC", c))
    return {
        "documents": differing / len(originals),
        "characters": rewritten / counts.total() if differing else 0.0,
        "bytes": sizes(changed)["bytes"] / sizes(originals)["bytes"],
    }


def merged_entries(entries: Iterable[str]) -> int:
    """How many fewer entries a vocabulary has once NFKC makes one of the forms of a text.

    Examples
    --------
    Full-width, ordinary; half-width katakana, ordinary:

    >>> merged_entries(["Ａ", "A", "ｶﾞ", "ガ", "B"])
    2
    """
    distinct = set(entries)
    return len(distinct) - len({unicodedata.normalize("NFKC", entry) for entry in distinct})
