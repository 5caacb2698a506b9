"""Texts as ids: padded batches, questions behind texts, and the bytes of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.files import ArtifactError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Batch:
    """Texts of one part, padded.

    Attributes
    ----------
    ids
        int64 [texts, tokens]; what stands after a text is 0.
    lengths
        int64 [texts].
    labels
        int64 [texts]; empty where there are none.
    """

    ids: Any
    lengths: Any
    labels: Any

    def take(self, rows: NDArray[np.int64] | slice) -> Batch:
        """Some texts, no longer padded than the longest of them needs."""
        lengths = self.lengths[rows]  # [texts]
        return Batch(self.ids[rows][:, : int(lengths.max())], lengths, self.labels[rows])

    def split(self, size: int) -> list[Batch]:
        """All texts, so many at a time."""
        starts = range(0, len(self.ids), size)
        return [self.take(slice(start, start + size)) for start in starts]


def padded(texts: Sequence[Sequence[int]], labels: Any, device: str) -> Batch:
    """Texts as ids, with a label each, as a batch on a device."""
    import torch

    lengths = torch.tensor([len(text) for text in texts])  # [texts]
    ids = torch.zeros(len(texts), int(lengths.max()), dtype=torch.int64)  # [texts, tokens]
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
    return Batch(ids.to(device), lengths.to(device), labels.to(device))


def questions(
    tokenizer: Tokenizer, texts: Sequence[str], prompt: str, words: Sequence[str], tokens: int
) -> list[tuple[list[list[int]], int]]:
    """The ends of texts with a prompt and each word behind them.

    A text that contains the prompt is cut at its last occurrence, and asked there.

    Parameters
    ----------
    tokenizer, texts
        The tokenizer, and what is asked about.
    prompt, words
        What is put behind a text, and what may follow it.
    tokens
        Of a text with all behind it, at most.

    Returns
    -------
    list of tuple
        For each word, token ids of every text, and how many tokens at their end are the word's.
        What stands before the word is the same for all.

    Raises
    ------
    ArtifactError
        If there is no room for a text.
    """
    asked = tokenizer.encode(f" {prompt}").ids
    answers = [tokenizer.encode(f" {word}").ids for word in words]
    room = tokens - len(asked) - max(map(len, answers))
    if room < 1:
        raise ArtifactError(
            f"experiments.pretraining.zero_shot: the prompt {prompt!r} and its words take all "
            f"{tokens} tokens of a text: shorten them, or raise tokens in params.yaml"
        )
    before = [text.rpartition(f" {prompt} ")[0] or text for text in texts]
    ends = [encoding.ids[-room:] for encoding in tokenizer.encode_batch(before)]
    return [([[*ids, *asked, *own] for ids in ends], len(own)) for own in answers]


def utf8_bytes(tokenizer: Tokenizer, special: int, device: str) -> Any:
    """UTF-8 bytes of each token, int64 [vocabulary]: a byte is one character of its name."""
    import torch

    count = torch.zeros(tokenizer.get_vocab_size(), dtype=torch.int64)  # [vocabulary]
    for name, index in tokenizer.get_vocab().items():
        count[index] = 0 if index == special else len(name)
    return count.to(device)
