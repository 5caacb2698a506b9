"""Kinds of tokenizers that lose nothing but what they do not know, and texts cut into segments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tokenizers import (
    Encoding,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)

from posenc.metrics.tokenizers import byte_offsets, segment_of
from posenc.tokens.tokenize import END_OF_TEXT, train_bpe

UNKNOWN = "<|unknown|>"
BATCH_DOCUMENTS = 200
SEEDS = 10
"""Pieces for each one of a unigram model's vocabulary that its training starts from."""
_STEP = 1e-4


class TokenizerError(RuntimeError):
    """A tokenizer cannot be trained from what there is."""

    is_user_error = True


def train_tokenizer(kind: str, texts: Sequence[str], vocabulary_size: int) -> Tokenizer:
    """Learn a tokenizer that loses nothing but what it does not know.

    Parameters
    ----------
    kind
        ``whitespace``: a word with the space before it, any other white space by itself, of which
        the most frequent are known. ``character``: the most frequent code points. ``bpe``:
        :func:`posenc.tokens.tokenize.train_bpe`. ``unigram``: the unigram model of SentencePiece
        (Kudo 2018, https://aclanthology.org/P18-1007) as the library trains it; a space belongs to
        the piece that it begins.
    texts
        Training documents.
    vocabulary_size
        At most so many tokens, special ones included.

    Raises
    ------
    TokenizerError
        If a unigram model, which keeps all characters, has no room for them.
    """
    if kind == "bpe":
        return train_bpe(texts, vocabulary_size)
    special = [END_OF_TEXT, UNKNOWN]
    if kind == "unigram":
        return _train_unigram(texts, vocabulary_size, special)
    pattern = {"whitespace": r" ?\S+|\s", "character": r"[\s\S]"}[kind]
    tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocabulary_size, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _train_unigram(texts: Sequence[str], vocabulary_size: int, special: list[str]) -> Tokenizer:
    characters = len(set().union(*texts))
    if characters + len(special) > vocabulary_size:
        raise TokenizerError(
            f"vocabulary_size {vocabulary_size} has no room for the {characters} characters of the "
            f"training documents, which a unigram model keeps: raise it in experiments.tokenizers"
        )
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary_size,
        special_tokens=special,
        unk_token=UNKNOWN,
        # The library starts from a million: whole sentences, where text is not parted by spaces.
        seed_size=SEEDS * vocabulary_size,  # type: ignore[call-arg]  # its stub lacks this
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    pieces = json.loads(tokenizer.to_str())["model"]["vocab"]
    tokenizer.model = models.Unigram(
        _settled(pieces, special), unk_id=special.index(UNKNOWN), byte_fallback=False
    )
    # The new model does not know them.
    tokenizer.add_special_tokens(special)
    return tokenizer


def _settled(pieces: list[list], special: list[str]) -> list[tuple[str, float]]:
    """Pieces and scores that are the same in every process, special ones first.

    The trainer keeps all characters; those that it would have dropped get its lowest score and
    steps of 0.0001 above it in the order of a hash map, which is another in every process. Here
    all of them get the lowest. Sums in that order differ in the last digits too.
    """
    scored = [(piece, score) for piece, score in pieces if piece not in special]
    lowest = min(score for _, score in scored)
    steps = _STEP * sum(len(piece) == 1 for piece, _ in scored)
    settled = [
        (piece, round(lowest if len(piece) == 1 and score <= lowest + steps else score, 6))
        for piece, score in scored
    ]
    return [*((piece, 0.0) for piece in special), *sorted(settled)]


@dataclass
class Tokens:
    """Texts as tokens.

    Attributes
    ----------
    contexts
        The token before each segment; the end of a text for the first of a text.
    segments
        int64 [tokens of the segment]: what is predicted. The last one of a text has its end.
    count
        Tokens of the texts, without their ends.
    unknown_bytes
        UTF-8 bytes that each unknown token stands for.
    exact
        How many texts decoding gives back.
    rebuilt
        How many it gives back with the unknown pieces spelled.
    """

    contexts: list[int] = field(default_factory=list)
    segments: list[NDArray[np.int64]] = field(default_factory=list)
    count: int = 0
    unknown_bytes: list[int] = field(default_factory=list)
    exact: int = 0
    rebuilt: int = 0


def tokenize(tokenizer: Tokenizer, texts: Sequence[str], size: int, decode: bool = False) -> Tokens:
    """Cut texts every ``size`` bytes and tell each segment by the tokens that begin in it.

    Parameters
    ----------
    tokenizer
        From :func:`train_tokenizer`.
    texts
        Documents, none of them empty.
    size
        Bytes of a segment; the last one of a text may have fewer.
    decode
        Whether to count the texts that decoding gives back.
    """
    tokens = Tokens()
    for start in range(0, len(texts), BATCH_DOCUMENTS):
        batch = list(texts[start : start + BATCH_DOCUMENTS])
        for text, encoding in zip(batch, tokenizer.encode_batch(batch), strict=True):
            _add(tokens, tokenizer, text, encoding, size)
            if decode:
                tokens.exact += tokenizer.decode(encoding.ids, skip_special_tokens=False) == text
                tokens.rebuilt += rebuild(tokenizer, text, encoding) == text
    return tokens


def _add(tokens: Tokens, tokenizer: Tokenizer, text: str, encoding: Encoding, size: int) -> None:
    end, unknown = tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(UNKNOWN)
    assert end is not None
    ids = np.asarray(encoding.ids, np.int64)  # [tokens]
    spans = np.asarray(encoding.offsets, np.int64).reshape(-1, 2)  # [tokens, 2], characters
    spans = byte_offsets(text, spans)  # [tokens, 2], bytes
    count = -(-len(text.encode()) // size)
    cuts = np.searchsorted(segment_of(spans[:, 0], size), np.arange(1, count))  # [segments - 1]
    following = np.concatenate([[end], ids])  # [tokens + 1]: the token before each
    tokens.contexts += [int(following[cut]) for cut in [0, *cuts]]
    segments = np.split(ids, cuts)
    tokens.segments += [*segments[:-1], np.append(segments[-1], end)]
    tokens.count += len(ids)
    if unknown is not None:
        tokens.unknown_bytes += np.diff(spans[ids == unknown], axis=1)[:, 0].tolist()


def rebuild(tokenizer: Tokenizer, text: str, encoding: Encoding) -> str:
    """The text from its tokens, with the pieces that are not known spelled.

    Parameters
    ----------
    tokenizer
        From :func:`train_tokenizer`.
    text
        The document, of which the spelled pieces are read.
    encoding
        What the tokenizer made of it.
    """
    unknown = tokenizer.token_to_id(UNKNOWN)
    parts: list[str] = []
    known: list[int] = []
    for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        if token == unknown:
            parts += [tokenizer.decode(known, skip_special_tokens=False), text[start:end]]
            known = []
        else:
            known.append(token)
    return "".join([*parts, tokenizer.decode(known, skip_special_tokens=False)])


def whole_entries(tokenizer: Tokenizer) -> list[str]:
    """Entries of a vocabulary as text, without special ones and bytes that are no characters."""
    entries = [
        tokenizer.decode([token], skip_special_tokens=True)
        for token in range(tokenizer.get_vocab_size())
    ]
    return [entry for entry in entries if entry and "\ufffd" not in entry]
