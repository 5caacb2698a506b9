"""What would a model without positions save: parameters, memory, and caches that can be shared?

A cache keeps the keys and values of a passage. Where the same passage comes again at another
offset, it can be used again only if they are the same there ("position-independent caching": Gim et
al. (2024), "Prompt Cache", https://arxiv.org/abs/2311.04934; Hu et al. (2025), "EPIC",
https://arxiv.org/abs/2410.15332). A passage is run alone at offset 0 and at others, and attends to
itself alone: what stands before it is another matter, which positions have no part in. Three ways
to use its cache again are compared with running it there:

- ``intact``: as it was kept. A table of positions changes all of it. A rotary model's values stay,
  since scores depend on offsets between tokens alone, and its keys are turned.
- ``turned``: the keys of a rotary model are turned on by the offset; R(k) R(p) = R(k + p) makes
  them the same, in all layers.
- ``zero``: without positions. Nothing may change at all, which is the control.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.of_models import beginnings, of_tokens
from posenc.measurements.savings import result
from posenc.measurements.savings.declaration import FEWEST, MEASUREMENT, Savings
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.caches import ROUNDED, relative_differences
from posenc.metrics.rotary import rotate
from posenc.tokens.tokenized import Tokens

if TYPE_CHECKING:
    from posenc.capture.caches import Cache

Floats = NDArray[np.float64]
KEYS, VALUES = 0, 1
"""Places of the kinds of vectors in arrays [kinds, ...]."""
INTACT, TURNED, ZERO = "intact", "turned", "zero"


class Sizes(NamedTuple):
    """What a model takes, as :class:`posenc.measurements.savings.result.Savings` has it."""

    bytes_per_entry: int
    parameters: result.Parameters
    bytes_per_cached_token: int


def measure(parameters: Savings, network: Any, text: Tokens) -> result.Savings | NotMeasured:
    """Count what positions take, and run passages at several offsets, also without positions."""
    from posenc.capture.caches import positions_at_hand
    from posenc.capture.parts import architecture, is_decoder, positions_of

    documents = beginnings(
        text, parameters.documents,
        f"measurements.savings.documents is {parameters.documents}",
        tokens=parameters.tokens, shortest=FEWEST, seed=parameters.seed,
    )  # fmt: skip
    longest, there = max(len(ids) for ids in documents), positions_at_hand(network)
    if parameters.offsets[-1] + longest > there:
        return not_run(
            f"{longest} tokens from offset {parameters.offsets[-1]} on need more than the "
            f"{there} positions of the model: lower measurements.savings.offsets in params.yaml",
            parameters,
        )
    by_way: dict[tuple[str, int], list[Floats]] = {}
    for ids in tqdm(documents, unit="document", desc="caches", mininterval=5):
        for way, offset, differences in document_differences(network, ids, parameters.offsets):
            by_way.setdefault((way, offset), []).append(differences)
    taken = sizes(network)
    return result.Savings(
        is_causal=is_decoder(network),
        positions=positions_of(network),
        n_layers=architecture(network).n_layers,
        documents=len(documents),
        tokens=sum(len(ids) for ids in documents),
        confidence=parameters.confidence,
        bytes_per_entry=taken.bytes_per_entry,
        parameters=taken.parameters,
        bytes_per_cached_token=taken.bytes_per_cached_token,
        rounded=ROUNDED,
        caches=[
            results(parameters, way, offset, differences)
            for (way, offset), differences in by_way.items()
        ],
    )


def sizes(network: Any) -> Sizes:
    """Parameters of the model and of its positions, and bytes of a cache, as the model is run here.

    Angles of a rotation are no parameters. A matrix that is used twice counts once.
    """
    from posenc.capture.parts import architecture, is_rotary, position_embedding

    every, dimensions = list(network.parameters()), architecture(network)
    entry = every[0].element_size()
    table = 0 if is_rotary(network) else position_embedding(network).weight.numel()
    count = sum(parameter.numel() for parameter in every)
    kept = [layer.n_key_value_heads * (layer.d_head + layer.d_value) for layer in dimensions.layers]
    return Sizes(
        bytes_per_entry=entry,
        parameters=result.Parameters(
            all=count, positions=table, share=table / count, bytes=table * entry
        ),
        bytes_per_cached_token=sum(kept) * entry,
    )


def document_differences(
    network: Any, ids: list[int], offsets: list[int]
) -> Iterator[tuple[str, int, Floats]]:
    """Of each way and offset, relative differences of a passage's cache from that at offset 0.

    They are float64 [kinds, n_layers, tokens], over all heads of a layer together.
    """
    from posenc.capture.caches import cache_of
    from posenc.capture.interventions import applied
    from posenc.capture.parts import is_rotary
    from posenc.capture.rotation import frequencies
    from posenc.conditions.section import Condition

    for way in (INTACT, ZERO):
        with applied(network, Condition(position=way)):
            kept, *others = (cache_of(network, ids, offset) for offset in (0, *offsets))
        for offset, other in zip(offsets, others, strict=True):
            yield way, offset, differences(kept, other)
            if way == INTACT and is_rotary(network):
                by = np.full(len(ids), offset)  # [tokens]
                keys = [rotate(layer_keys, by, frequencies(network)) for layer_keys in kept.keys]
                yield TURNED, offset, differences(kept._replace(keys=keys), other)


def differences(kept: Cache, other: Cache) -> Floats:
    """Relative differences of two caches of a passage, [kinds, n_layers, tokens]."""

    def joined(heads: NDArray) -> NDArray:  # [n_heads, tokens, d_head] to [tokens, all features]
        return heads.swapaxes(0, 1).reshape(heads.shape[1], -1)

    keys = map(relative_differences, map(joined, kept.keys), map(joined, other.keys))
    values = map(relative_differences, kept.values, other.values)
    return np.array([[*keys], [*values]])


def results(parameters: Savings, way: str, offset: int, passages: list[Floats]) -> result.Cache:
    """What of a cache can be kept, and how far the rest is off: of all layers, and of each.

    Parameters
    ----------
    parameters
        Of the measurement.
    way, offset
        How the cache is used again, and where.
    passages
        Differences of each, [kinds, n_layers, tokens].
    """
    lengths = np.array([passage.shape[-1] for passage in passages])  # [documents]
    sums = np.stack([passage.sum(axis=-1) for passage in passages])  # [documents, kinds, n_layers]
    # [kinds, n_layers]
    largest = np.stack([passage.max(axis=-1) for passage in passages]).max(axis=0)

    def difference(kind: int, layers: slice) -> result.Difference:
        options = bootstrap(parameters)
        mean = ratio_bootstrap(sums[:, kind, layers].mean(axis=1), lengths, **options)
        return result.Difference(mean=Interval.of(mean), largest=float(largest[kind, layers].max()))

    def both(layers: slice) -> tuple[result.Difference, result.Difference]:
        return difference(KEYS, layers), difference(VALUES, layers)

    keys, values = both(slice(None))
    by_layer = [both(slice(layer, layer + 1)) for layer in range(sums.shape[2])]
    return result.Cache(
        way=way,
        offset=offset,
        # Keys and values of all layers take the same room.
        kept=float((largest <= ROUNDED).mean()),
        keys=keys,
        values=values,
        layers=[
            result.Layer(layer=layer, keys=layer_keys, values=layer_values)
            for layer, (layer_keys, layer_values) in enumerate(by_layer)
        ],
    )


main = of_tokens(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
