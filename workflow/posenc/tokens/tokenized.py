"""A tokenized data set on disk, and how its documents are split into shards."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from posenc.artifacts.files import sha256_file
from posenc.artifacts.tables import read_table

if TYPE_CHECKING:
    import pyarrow as pa


class Metadata(TypedDict):
    """What the file of a text's tokens says of itself."""

    schema: int
    max_tokens: int
    """Documents are cut to so many."""
    bos: bool
    """Whether they begin with the end-of-text token."""
    evaluation: Mapping[str, Any]
    """Which documents they are: split, number, seed."""
    inputs: dict[str, str]
    """Checksums of tokenizer and documents."""
    versions: dict[str, str]
    code: str


@dataclass(frozen=True)
class Tokens:
    """The tokens of a data set, as a model reads them."""

    path: Path

    @functools.cached_property
    def _read(self) -> tuple[pa.Table, Metadata]:
        table, metadata = read_table(self.path)
        return table, cast(Metadata, metadata)

    @property
    def table(self) -> pa.Table:
        """One row a document."""
        return self._read[0]

    @property
    def metadata(self) -> Metadata:
        """What the file says of itself."""
        return self._read[1]

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return sha256_file(self.path)

    @functools.cached_property
    def ids(self) -> list[list[int]]:
        """Token ids of each document."""
        return self.table["input_ids"].to_pylist()

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each document, int [documents]."""
        return np.array([len(document) for document in self.ids])

    def shards(self, shard_tokens: int) -> list[range]:
        """Documents of each shard."""
        return shards_of(self.lengths, shard_tokens)


def shards_of(lengths: np.ndarray, shard_tokens: int) -> list[range]:
    """Split documents, in order, into shards of at most ``shard_tokens`` tokens.

    A document that is longer than that gets a shard of its own.

    Parameters
    ----------
    lengths
        Tokens of each document, int [documents].
    """
    shards, begin, tokens = [], 0, 0
    for document, length in enumerate(lengths):
        if document > begin and tokens + length > shard_tokens:
            shards.append(range(begin, document))
            begin, tokens = document, 0
        tokens += int(length)
    if begin < len(lengths):
        shards.append(range(begin, len(lengths)))
    return shards
