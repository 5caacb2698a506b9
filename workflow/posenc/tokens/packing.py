"""Documents one after the other in a single row: no padding is computed, read or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Pack:
    """Documents of one forward pass.

    Attributes
    ----------
    documents
        Their indices, in the order of the row.
    lengths
        Tokens of each.
    """

    documents: list[int]
    lengths: list[int]

    @property
    def tokens(self) -> int:
        """Tokens of the row."""
        return sum(self.lengths)

    @property
    def spans(self) -> Iterator[tuple[int, slice]]:
        """Each document and its place in the row."""
        begin = 0
        for document, length in zip(self.documents, self.lengths, strict=True):
            yield document, slice(begin, begin + length)
            begin += length


def packs_of(lengths: NDArray[np.int64], documents: Iterable[int], budget: int) -> Iterator[Pack]:
    """Fill rows with documents, in the order given.

    Parameters
    ----------
    lengths
        Tokens of every document of the data set, int [documents].
    documents
        Those to pack.
    budget
        Tokens of a row at most; a document that is longer has one for itself.
    """
    row: list[int] = []
    tokens = 0
    for document in documents:
        length = int(lengths[document])
        if row and tokens + length > budget:
            yield Pack(row, [int(lengths[d]) for d in row])
            row, tokens = [], 0
        row.append(document)
        tokens += length
    if row:
        yield Pack(row, [int(lengths[d]) for d in row])


def windows_of(tokens: int, size: int, stride: int) -> list[tuple[int, int, int]]:
    """Windows of a document that together read each token once.

    Parameters
    ----------
    tokens
        Of the document.
    size, stride
        Tokens of a window, and from the beginning of one to that of the next, no more than those.

    Returns
    -------
    Of each window its first token, the first that it is read for, which no window before it
    reaches, and the one after its last.
    """
    windows = [(0, 0, min(size, tokens))]
    while (end := windows[-1][2]) < tokens:
        begin = len(windows) * stride
        windows.append((begin, end, min(begin + size, tokens)))
    return windows


def positions_of(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each token in its own document, int64 [tokens]."""
    return np.concatenate([np.arange(length) for length in lengths])
