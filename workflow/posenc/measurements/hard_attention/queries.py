"""Queries that are drawn for all heads at once, and what each of them may read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.files import ArtifactError
from posenc.metrics.hard_attention import standardised
from posenc.metrics.patterns import query_pattern
from posenc.metrics.sampling import sampled
from posenc.models.values import ValueMaps
from posenc.tokens.packing import positions_of

Shards = dict[int, tuple[NDArray, NDArray, NDArray]]
"""Hidden states, queries and keys of each shard, mapped into memory."""


@dataclass(frozen=True)
class Queries:
    """Queries that are drawn once for all heads and conditions.

    Attributes
    ----------
    document, shard, row
        int64 [queries]: index of each query's document, and where its hidden state lies.
    first, last
        int64 [queries]: rows of the keys that it sees, ``last`` left out.
    """

    document: NDArray[np.int64]
    shard: NDArray[np.int64]
    row: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def drawn_queries(store: ActivationStore, count: int, generator: np.random.Generator) -> Queries:
    """Draw queries from all tokens that see at least two keys; all of them if there are fewer.

    Raises
    ------
    ArtifactError
        If there is none.
    """
    table = store.documents
    length = table["length"].to_numpy().astype(np.int64)  # [documents]
    document = np.repeat(np.arange(len(length)), length)  # [tokens]
    position = positions_of(length)  # [tokens]
    seen = position + 1 if store.metadata["is_decoder"] else length[document]  # [tokens]
    chosen = np.flatnonzero(seen >= 2)  # [n]
    if len(chosen) == 0:
        raise ArtifactError(
            f"{store.directory} has no token that sees two: its documents are empty"
        )
    chosen = sampled(chosen, count, generator)
    start = table["start"].to_numpy().astype(np.int64)[document[chosen]]  # [queries]
    return Queries(
        document=document[chosen],
        shard=table["shard"].to_numpy()[document[chosen]],
        row=start + position[chosen],
        first=start,
        last=start + seen[chosen],
    )


def places(queries: Queries) -> Iterator[tuple[int, int, int, int]]:
    """Shard, row, and first and last key of each query."""
    columns = (queries.shard, queries.row, queries.first, queries.last)
    yield from zip(*(column.tolist() for column in columns), strict=True)


def states(
    shards: Shards, layer: int, shard: int, row: int, first: int, last: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What a query may read, [keys, d_model], and its target, [d_model]."""
    given, left = shards[shard][0][layer : layer + 2]  # [tokens, d_model] each
    return standardised(given[first:last]), standardised(left[row])


def read_values(
    shards: Shards,
    maps: ValueMaps,
    patterns: NDArray[np.float64],  # [n_heads, keys]
    layer: int, shard: int, row: int, first: int, last: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Values of each head, [n_heads, keys, d_head], and what all heads add, [d_model]."""
    values = maps.values(shards[shard][0][layer, first:last])  # [n_heads, keys, d_head]
    read = patterns[:, None] @ values  # [n_heads, 1, d_head]
    return values, (read @ maps.output).sum(axis=(0, 1)) + maps.bias


def pattern(
    shards: Shards, layer: int, head: int, shard: int, row: int, first: int, last: int
) -> NDArray[np.float64]:
    """Attention pattern of a query over the keys that it sees, [keys]."""
    _, of_queries, of_keys = shards[shard]  # [n_layers, n_heads, tokens, d_head] each
    return query_pattern(of_queries[layer, head, row], of_keys[layer, head, first:last])
