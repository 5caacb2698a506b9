"""Soft and hard read-outs of real attention patterns, and the gradient's variance (E1, E2).

Read out are the hidden states that a layer is given, as the annotations of Bahdanau et al. (2015)
and Xu et al. (2015) are, without a value matrix, which the sources do not have. The target is the
hidden state that the layer leaves at the query's position. Both are standardised over their
entries, so that layers and models have one unit; f(v) = -‖v - t‖² / (2 d) is Xu's log p(y | a) for
a normal law about the read-out, less its constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.config.base import Confidence, Count, Draws, Samples, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, CELL, Measurement
from posenc.measurements.frame import command, naming, not_run
from posenc.measurements.heads import not_rebuilt
from posenc.metrics.hard_attention import standardised
from posenc.metrics.hard_attention_means import (
    Columns,
    Means,
    Settings,
    joined,
    largest_errors,
    of_query,
)
from posenc.metrics.patterns import query_pattern
from posenc.metrics.sampling import sampled, sampled_heads
from posenc.store.activations import ActivationStore
from posenc.tokens.packing import positions_of

Shards = dict[int, tuple[NDArray, NDArray, NDArray]]
"""Hidden states, queries and keys of each shard, mapped into memory."""


class HardAttention(Section):
    """Soft and hard read-outs of real attention patterns, and the gradient's variance (E1, E2)."""

    queries: Annotated[Draws, Field(ge=10)]
    """Random tokens that see at least two keys, the same for all heads and conditions."""
    heads: Draws
    """Random heads of a model, spread over its layers as evenly as possible."""
    samples: Annotated[list[Count], Field(min_length=1)]
    """Numbers of samples of the gradient's estimate, rising."""
    repeats: Annotated[Count, Field(ge=10)]
    """Estimates of each gradient, over which the variance is taken."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed

    @model_validator(mode="after")
    def _check_samples(self) -> HardAttention:
        if self.samples != sorted(set(self.samples)):
            raise ValueError(f"samples {self.samples} must rise")
        return self


MEASUREMENT = Measurement(
    "hard_attention", HardAttention, of=CELL, reads=(ACTIVATIONS,), catalogue=("E1", "E2"),
    uses=("scipy",),
)  # fmt: skip


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


def measure(
    parameters: HardAttention, intact: ActivationStore, condition: ActivationStore
) -> dict[str, Any]:
    """Compute the measurement of one store, head after head.

    Queries are random tokens that see at least two keys: with one key there is nothing to choose.
    Intervals are over documents; the heads are those drawn.
    """
    metadata = condition.metadata
    reason = not_rebuilt(metadata["condition"])
    if reason:
        return not_run(f"condition {metadata['run']['condition']}: {reason}", parameters)
    return {
        "is_causal": metadata["is_decoder"],
        "n_layers": metadata["n_layers"],
        "n_heads": metadata["n_heads"],
        **of_store(parameters, condition),
    }


def of_store(parameters: HardAttention, store: ActivationStore) -> dict[str, Any]:
    """Results of the drawn heads: of all of them, by layer, and one by one."""
    settings = Settings(
        parameters.samples, parameters.repeats, parameters.bootstrap_samples,
        parameters.confidence, parameters.seed,
    )  # fmt: skip
    generator = np.random.default_rng([parameters.seed, 0])
    heads = sampled_heads(
        store.metadata["n_layers"], store.metadata["n_heads"], parameters.heads, generator
    )  # fmt: skip
    queries = drawn_queries(store, parameters.queries, generator)
    found = of_heads(settings, store, queries, heads)

    def means(columns: list[Columns]) -> Means:
        return Means(joined(columns), queries.document, settings)

    every = list(found.values())
    return {
        "documents": len(np.unique(queries.document)),
        "tokens": len(queries.document),
        "repeats": settings.repeats,
        "confidence": settings.confidence,
        **means(every).whole(),
        "checks": largest_errors(joined(every)),
        "layers": [
            {"layer": layer, "heads": len(columns), **means(columns).part()}
            for layer, columns in by_layer(found).items()
        ],
        "heads": [
            {"layer": layer, "head": head, **means([columns]).part()}
            for (layer, head), columns in found.items()
        ],
    }


def of_heads(
    settings: Settings, store: ActivationStore, queries: Queries, heads: list[tuple[int, int]]
) -> dict[tuple[int, int], Columns]:
    """What is found of each query, for each head.

    Raises
    ------
    ArtifactError
        If a score or a hidden state is not finite.
    """
    shards = {
        shard: (store.hidden_states(shard), store.queries(shard), store.keys(shard))
        for shard in np.unique(queries.shard).tolist()
    }
    found: dict[tuple[int, int], Columns] = {}
    with tqdm(total=len(heads), unit="head", desc="hard attention", mininterval=5) as progress:
        for layer in dict.fromkeys(layer for layer, _ in heads):
            of_layer = [head for one, head in heads if one == layer]
            with naming(f"{store.directory}, layer {layer}"):
                columns = layer_columns(settings, shards, queries, layer, of_layer)
            found |= {(layer, head): columns[head] for head in of_layer}
            progress.update(len(of_layer))
    return found


def by_layer(found: dict[tuple[int, int], Columns]) -> dict[int, list[Columns]]:
    """What was found of the heads of each layer."""
    layers: dict[int, list[Columns]] = {}
    for (layer, _), columns in found.items():
        layers.setdefault(layer, []).append(columns)
    return layers


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


def layer_columns(
    settings: Settings, shards: Shards, queries: Queries, layer: int, heads: list[int]
) -> dict[int, Columns]:
    """What is found of each query, for each of a layer's heads."""
    # A head's draws do not depend on which other heads are drawn.
    generators = {head: np.random.default_rng([settings.seed, 1, layer, head]) for head in heads}
    rows: dict[int, list[dict[str, Any]]] = {head: [] for head in heads}
    for place in places(queries):
        values, target = states(shards, layer, *place)  # [keys, d_model], [d_model]
        for head in heads:
            seen = pattern(shards, layer, head, *place)  # [keys]
            rows[head].append(of_query(seen, values, target, settings, generators[head]))
    return {
        head: {name: np.array([one[name] for one in found]) for name in found[0]}
        for head, found in rows.items()
    }


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


def pattern(
    shards: Shards, layer: int, head: int, shard: int, row: int, first: int, last: int
) -> NDArray[np.float64]:
    """Attention pattern of a query over the keys that it sees, [keys]."""
    _, of_queries, of_keys = shards[shard]  # [n_layers, n_heads, tokens, d_head] each
    return query_pattern(of_queries[layer, head, row], of_keys[layer, head, first:last])


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
