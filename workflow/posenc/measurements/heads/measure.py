"""Where the heads of a model look: attention mass by offset, and types of heads (C6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.activations import ActivationStore, Metadata
from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.measurements.frame import command, naming, not_run
from posenc.measurements.heads.declaration import MEASUREMENT, Heads
from posenc.measurements.heads.result import (
    Attention,
    Head,
    HeadType,
    Looks,
    Peak,
    Strongest,
    UniformMass,
)
from posenc.metrics.bootstrap import percentile_interval, ratio_replicates
from posenc.metrics.heads import (
    excess_over_uniform,
    head_types,
    layout,
    mass_by_offset,
    mean_offset,
    peak_offset,
    uniform_by_offset,
)
from posenc.metrics.patterns import attention_pattern

STRONGEST = ("previous", "self", "next", "first")
"""Places of which the head with the most mass is named."""


class FirstDocuments:
    """The first documents of a store, and where their queries and keys lie.

    Attributes
    ----------
    lengths
        int64 [documents].
    places
        Shard, and slice of its tokens, of each document, shard after shard.
    specials
        bool [tokens] for each document: which tokens the tokenizer added.
    """

    def __init__(self, store: ActivationStore, limit: int | None) -> None:
        table = store.documents.slice(0, limit)
        shards, starts = table["shard"].to_numpy(), table["start"].to_numpy()
        self.lengths = table["length"].to_numpy().astype(np.int64)  # [documents]
        self.places = [
            (int(shard), slice(int(start), int(start + length)))
            for shard, start, length in zip(shards, starts, self.lengths, strict=True)
        ]
        masks = {shard: np.asarray(store.special_mask(shard)) for shard in np.unique(shards)}
        self.specials = [masks[shard][place] for shard, place in self.places]


def measure(
    parameters: Heads, intact: ActivationStore, condition: ActivationStore
) -> Attention | NotMeasured:
    """Compute the measurement, layer after layer; within a layer, document after document.

    Masses are means over all queries, special tokens among them; keys are all tokens that a query
    sees. Only a few numbers per head and document of one layer are held.
    """
    metadata = condition.metadata
    reason = not_rebuilt(metadata)
    if reason:
        return not_run(f"condition {metadata['run']['condition']}: {reason}", parameters)
    causal, offsets = metadata["is_decoder"], parameters.offsets
    documents = FirstDocuments(condition, parameters.documents)
    uniform = uniform_masses(documents, offsets, causal)  # [documents, columns]
    mean_uniform = uniform.sum(axis=0) / documents.lengths.sum()  # [columns]
    looks: list[Looks] = []
    masses = []  # [n_heads, columns] each
    with tqdm(total=metadata["n_layers"], unit="layer", desc="heads", mininterval=5) as progress:
        for layer in range(metadata["n_layers"]):
            sums = layer_masses(condition, documents, layer, offsets, causal)
            of_layer, mean = summarise(parameters, layer, sums, uniform, documents.lengths)
            looks += of_layer
            masses.append(mean)
            progress.update()
    parts = slice(layout(offsets)["first"].start, None)
    types = head_types(
        np.concatenate(masses)[:, parts], mean_uniform[parts], offsets, parameters.types,
        parameters.seed,
    )  # fmt: skip
    heads = [
        Head(**dict(of_head), type=types.names[label])
        for of_head, label in zip(looks, types.labels, strict=True)
    ]
    sizes = np.bincount(types.labels, minlength=len(types.names))  # [types]
    return Attention(
        documents=len(documents.lengths),
        tokens=int(documents.lengths.sum()),
        confidence=parameters.confidence,
        is_causal=causal,
        n_layers=metadata["n_layers"],
        n_heads=metadata["n_heads"],
        offsets=list(range(-offsets, offsets + 1)),
        uniform=UniformMass(**named(mean_uniform, layout(offsets))),
        heads=heads,
        strongest={name: strongest(heads, name) for name in STRONGEST},
        types=[
            HeadType(name=name, heads=int(size), **named(centroid, partition(offsets)))
            for name, size, centroid in zip(types.names, sizes, types.centroids, strict=True)
        ],
        types_explained=types.explained,
    )


def not_rebuilt(metadata: Metadata) -> str | None:
    """Why attention does not follow from queries and keys alone, if it does not."""
    condition, mask = metadata["condition"], metadata["condition"]["mask"]
    # A factor on the embeddings acts before the first block: queries and keys have it.
    if mask is not None and mask["semantics"] != "emb_mul":
        return f"its mask ({mask['semantics']}) is not in the cached queries and keys"
    if condition["segments"] is not None:
        return f"documents are cut into segments of {condition['segments']} tokens"
    return metadata.get("not_rebuilt")


def uniform_masses(documents: FirstDocuments, offsets: int, causal: bool) -> NDArray[np.float64]:
    """Sums over the queries of each document, for a head that attends to all keys alike."""
    known: dict[tuple[int, bytes], NDArray] = {}
    masses = []
    for length, special in zip(documents.lengths, documents.specials, strict=True):
        key = (int(length), special.tobytes())
        if key not in known:
            known[key] = uniform_by_offset(int(length), offsets, causal, special)
        masses.append(known[key])
    return np.stack(masses)  # [documents, columns]


def layer_masses(
    store: ActivationStore, documents: FirstDocuments, layer: int, offsets: int, causal: bool
) -> NDArray[np.float64]:
    """Sums over the queries of each document, [documents, n_heads, columns], of one layer.

    Raises
    ------
    ArtifactError
        If a score is not finite.
    """
    opened: tuple[int, NDArray, NDArray] | None = None
    masses = []
    for (shard, place), special in zip(documents.places, documents.specials, strict=True):
        if opened is None or opened[0] != shard:
            opened = shard, store.queries(shard)[layer], store.keys(shard)[layer]
        _, queries, keys = opened  # [n_heads, tokens of the shard, d_head] each
        with naming(f"{store.directory}, layer {layer}, shard {shard}"):
            pattern = attention_pattern(queries[:, place], keys[:, place], causal=causal)
        masses.append(mass_by_offset(pattern, offsets, special))
    return np.stack(masses)


def summarise(
    parameters: Heads,
    layer: int,
    sums: NDArray[np.float64],  # [documents, n_heads, columns]
    uniform: NDArray[np.float64],  # [documents, columns]
    lengths: NDArray[np.int64],  # [documents]
) -> tuple[list[Looks], NDArray[np.float64]]:
    """Where the heads of one layer look, and their mean masses [n_heads, columns].

    The peak is the offset at which the mass on text is most above that of a uniform pattern. Its
    interval is of the mass there; the share of resamples with the same peak says how certain the
    offset itself is.
    """
    offsets, columns = parameters.offsets, layout(parameters.offsets)
    text = columns["text"]
    n_documents, n_heads, width = sums.shape
    joined = np.concatenate([sums.reshape(n_documents, -1), uniform], axis=1)
    replicates = ratio_replicates(
        joined, lengths, parameters.bootstrap_samples, parameters.seed
    )  # [samples, n_heads * columns + columns]
    drawn = replicates[:, :-width].reshape(-1, n_heads, width)  # [samples, n_heads, columns]
    drawn_uniform = replicates[:, None, -width:]  # [samples, 1, columns]
    mean = sums.sum(axis=0) / lengths.sum()  # [n_heads, columns]
    mean_uniform = uniform.sum(axis=0) / lengths.sum()  # [columns]
    excess = excess_over_uniform(mean[:, text], mean_uniform[text])  # [n_heads, 2 offsets + 1]
    peak = peak_offset(excess)  # [n_heads]
    drawn_peak = peak_offset(
        excess_over_uniform(drawn[..., text], drawn_uniform[..., text])
    )  # [samples, n_heads]
    middle = mean_offset(mean[:, text])  # [n_heads]
    places = {"previous": offsets - 1, "self": offsets, "next": offsets + 1}
    places |= {name: columns[name].start for name in ("first", "special")}

    def interval(head: int, column: int) -> Interval:
        return Interval.of(
            percentile_interval(mean[head, column], drawn[:, head, column], parameters.confidence)
        )

    def look(head: int) -> Looks:
        offset = int(peak[head])
        masses = named(mean[head], columns)
        intervals = {name: interval(head, column) for name, column in places.items()}
        return Looks(
            layer=layer,
            head=head,
            **{**masses, **intervals},
            peak=Peak(
                offset=offset,
                mass=interval(head, text.start + offset + offsets),
                excess=float(excess[head, offset + offsets]),
                stability=float(np.mean(drawn_peak[:, head] == offset)),
            ),
            mean_offset=None if np.isnan(middle[head]) else float(middle[head]),
        )

    return [look(head) for head in range(n_heads)], mean


def strongest(heads: list[Head], place: str) -> Strongest:
    """The head with the most mass at a place."""
    head = max(heads, key=lambda head: getattr(head, place).value)
    return Strongest(layer=head.layer, head=head.head, **dict(getattr(head, place)))


def partition(offsets: int) -> dict[str, slice]:
    """Columns of a type's profile."""
    columns = layout(offsets)
    begin = columns["first"].start
    return {
        name: slice(where.start - begin, where.stop - begin)
        for name, where in columns.items()
        if where.start >= begin
    }


def named(values: NDArray[np.float64], columns: dict[str, slice]) -> dict[str, list[float] | float]:
    """Masses by their names: lists by offset, and single numbers."""
    masses: dict[str, list[float] | float] = {}
    for name, where in columns.items():
        part = values[where].round(6).tolist()
        masses[name] = part if name in ("mass", "text") else part[0]
    return masses


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
