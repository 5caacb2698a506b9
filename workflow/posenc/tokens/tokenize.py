"""Tokens: documents as ragged lists of ids with offsets back to characters.

Uses the ``tokenizers`` library directly, so that this phase imports neither torch nor transformers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm

SCHEMA = 2
END_OF_TEXT = "<|endoftext|>"
TABLE = pa.schema(
    [
        ("document_id", pa.string()),
        ("input_ids", pa.list_(pa.int32())),
        ("starts", pa.list_(pa.int32())),  # first character of each token in the document's text
        ("ends", pa.list_(pa.int32())),  # one past its last character; 0, 0 for special tokens
        ("special", pa.list_(pa.bool_())),  # added by the tokenizer, not read from the text
        ("truncated", pa.bool_()),
        ("bytes", pa.int64()),  # UTF-8 bytes of the text that the tokens cover
        ("left_out", pa.int64()),  # tokens of the text behind them, which are not read
    ]
)


def byte_level_bpe(vocabulary: Path, merges: Path) -> Tokenizer:
    """GPT-2's tokenizer from its two published files (Radford et al., 2019).

    Parameters
    ----------
    vocabulary, merges
        ``vocab.json`` and ``merges.txt``.
    """
    tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    return _byte_level(tokenizer)


def _byte_level(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if tokenizer.token_to_id(END_OF_TEXT) is not None:
        tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, special=True, normalized=False)])
    return tokenizer


def train_bpe(texts: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """Learn a byte-level byte-pair encoding.

    Parameters
    ----------
    texts
        Training documents.
    vocabulary_size
        Number of tokens, the 256 bytes and the end-of-text token included.

    Returns
    -------
    Tokenizer
        Deterministic for the same texts; lossless for any text.
    """
    tokenizer = _byte_level(Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def begin_of(tokenizer: Tokenizer) -> tuple[int | None, bool]:
    """What begins a decoder's text.

    Returns
    -------
    token
        The end-of-text token, which is put before a text; None where there is no such token, or
        the tokenizer begins texts itself.
    is_own
        Whether the tokenizer begins texts itself.
    """
    mask = tokenizer.encode(_text_of_tokens(tokenizer)).special_tokens_mask
    if mask and mask[0]:
        return None, True
    return tokenizer.token_to_id(END_OF_TEXT), False


def _text_of_tokens(tokenizer: Tokenizer) -> str:
    """A text that a tokenizer has a token for: not all know a letter that no token is made of."""
    texts = itertools.chain("a", (tokenizer.decode([n]) for n in range(tokenizer.get_vocab_size())))
    has_tokens = (text for text in texts if tokenizer.encode(text, add_special_tokens=False).ids)
    return next(has_tokens, "a")


def tokenize(
    tokenizer: Tokenizer,
    document_ids: list[str],
    texts: list[str],
    max_tokens: int | None,
    is_decoder: bool,
    batch: int = 1000,
) -> pa.Table:
    """Tokenize documents into the table :data:`TABLE`.

    Parameters
    ----------
    tokenizer
        With its own post-processor ([CLS] and [SEP] for BERT); no padding.
    document_ids, texts
        The documents.
    max_tokens
        Truncate to so many tokens, special tokens included; None keeps all.
    is_decoder
        Prepend the end-of-text token, so that every token of the text is predicted from something:
        where there is one, and the tokenizer does not begin a text itself.
    """
    tokenizer = Tokenizer.from_str(tokenizer.to_str())  # truncation is a state of the object
    first = begin_of(tokenizer)[0] if is_decoder else None
    if max_tokens is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_tokens - (first is not None))
    columns: dict[str, list[Any]] = {name: [] for name in TABLE.names}
    with tqdm(total=len(texts), unit="document", desc="tokenize", mininterval=2) as progress:
        for begin in range(0, len(texts), batch):
            chunk = texts[begin : begin + batch]
            for offset, encoding in enumerate(tokenizer.encode_batch(chunk)):
                text = chunk[offset]
                ids, spans = list(encoding.ids), list(encoding.offsets)
                special = [bool(flag) for flag in encoding.special_tokens_mask]
                if first is not None:
                    ids, spans, special = [first, *ids], [(0, 0), *spans], [True, *special]
                covered = [span for span, flag in zip(spans, special, strict=True) if not flag]
                text_end = covered[-1][1] if covered else 0
                columns["document_id"].append(document_ids[begin + offset])
                columns["input_ids"].append(ids)
                columns["starts"].append([span[0] for span in spans])
                columns["ends"].append([span[1] for span in spans])
                columns["special"].append(special)
                columns["truncated"].append(bool(encoding.overflowing))
                columns["bytes"].append(len(text[:text_end].encode()))
                columns["left_out"].append(
                    sum(part.special_tokens_mask.count(0) for part in encoding.overflowing)
                )
            progress.update(len(chunk))
    return pa.table(columns, schema=TABLE)
