"""Is attention soft or hard? How many keys it reads, and what reading only a few costs (E1, E2).

The intact model runs on the beginnings of documents. Its patterns say how many keys a head reads
(:mod:`posenc.metrics.effective_keys`), and a second run, in which each query keeps its strongest
keys alone, whether the others matter. The controls read as many keys: the nearest, the document's
first with the nearest, or any. If they were as good, the choice would not matter. By length:
patterns that are equally sharp whatever they see read the same number of keys (growth 0), and
uniform ones read all (growth 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval
from posenc.measurements.effective_keys import result
from posenc.measurements.effective_keys.declaration import FEWEST, MEASUREMENT, EffectiveKeys
from posenc.measurements.frame import bootstrap
from posenc.measurements.of_models import beginnings, of_tokens
from posenc.metrics.bootstrap import sums_bootstrap
from posenc.metrics.effective_keys import PARTS, parts
from posenc.metrics.patterns import attention_pattern
from posenc.metrics.recovery import PairedMeans
from posenc.metrics.similarity import token_cosines
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.float64]
NAMES = ("keys", "others", "first", "largest")
"""Of ``PARTS``, with entropies as numbers of keys."""
OCTAVES = 32
"""Powers of two that a number of keys may reach."""
EVERY = "every"
"""In place of a choice: all keys that a query sees are read."""


def measure(parameters: EffectiveKeys, network: Any, text: Tokens) -> result.EffectiveKeys:
    """Read the patterns of drawn documents, and run these once for each way to keep a few keys."""
    from posenc.capture.parts import is_decoder
    from posenc.capture.reading import CHOICES, Reading, states_reading

    documents = beginnings(
        text, parameters.documents,
        f"measurements.effective_keys.documents is {parameters.documents}",
        tokens=parameters.tokens, shortest=FEWEST, seed=parameters.seed,
    )  # fmt: skip
    causal = is_decoder(network)

    def patterns_of(ids: list[int]) -> tuple[Any, tuple[Floats, Floats, Floats]]:
        seen = np.arange(1, len(ids) + 1) if causal else np.full(len(ids), len(ids))  # [tokens]
        return patterns(network, ids, seen, causal)

    ways = [(choice, keys) for choice in CHOICES for keys in parameters.keys]
    sums, lengths, effects = [], [], []
    for number, ids in enumerate(tqdm(documents, unit="document", desc="keys", mininterval=5)):
        intact, of_document = patterns_of(ids)
        sums.append(of_document)
        # All queries of an encoder see the whole text, which is cut to see how its length matters.
        cut = [of_document] if causal else [patterns_of(ids[:end])[1] for end in cuts(len(ids))]
        lengths.append([sum(part) for part in zip(*cut, strict=True)])
        # Each document has its own random keys: a layer adds its number to the seed.
        seed = parameters.seed + 1000 * number
        readings = (Reading(choice, keys, seed) for choice, keys in ways)
        lasts = [intact, *(states_reading(network, ids, reading) for reading in readings)]
        effects.append([effect(network, ids, last, intact, causal) for last in lasts])
    queries, logs, of_heads = (np.stack(arrays) for arrays in zip(*sums, strict=True))
    by_length = [np.stack(arrays) for arrays in zip(*lengths, strict=True)]
    together, layers = pattern_results(parameters, queries, of_heads)
    rows, growth = length_results(parameters, *by_length)
    return result.EffectiveKeys(
        is_causal=causal,
        n_layers=of_heads.shape[2],
        n_heads=of_heads.shape[3],
        documents=len(documents),
        tokens=int(queries.sum()),
        confidence=parameters.confidence,
        seen=geometric_mean(logs, queries),
        **together,
        layers=layers,
        lengths=rows,
        growth=growth,
        reading=reading_results(parameters, ways, documents, np.array(effects), causal),
    )


def geometric_mean(logs: Floats, counts: Floats) -> float:
    """Of numbers, by sums of their logs and how many they are, of any shape."""
    return float(np.exp(logs.sum() / counts.sum()))


def octaves(seen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The power of two that each number of keys has reached: 2 and 3 are of octave 1."""
    return np.floor(np.log2(seen)).astype(np.int64)


def cuts(length: int) -> list[int]:
    """The powers of two at which a text is cut, from 4 up to its length."""
    return [2**octave for octave in range(2, int(octaves(np.array(length))) + 1)]


def patterns(
    network: Any, ids: list[int], seen: NDArray[np.int64], causal: bool
) -> tuple[Any, tuple[Floats, Floats, Floats]]:
    """Run the intact model on a document, and sum over its queries by octave.

    Returns
    -------
    last
        Hidden states after the last norm, [tokens, d_model].
    sums
        By octave, float64: how many queries there are, [OCTAVES]; the log of how many keys they
        see, [OCTAVES]; and what ``PARTS`` names, [OCTAVES, n_layers, n_heads, parts].
    """
    import torch

    from posenc.architectures.attention import recording
    from posenc.capture.capture import packed_last

    counted = seen >= FEWEST  # [tokens]
    octave = octaves(seen)[counted]  # [queries]

    def by_octave(values: Floats) -> Floats:  # [queries, ...] to [OCTAVES, ...]
        sums = np.zeros((OCTAVES, *values.shape[1:]))
        np.add.at(sums, octave, values)
        return sums

    with torch.inference_mode(), recording() as recorded:
        last = packed_last(network, [ids])[0]  # [tokens, d_model]
    layers = []
    for layer in sorted(recorded.queries):
        both = (vectors[layer][0].numpy() for vectors in (recorded.queries, recorded.keys))
        pattern = attention_pattern(*both, causal=causal)  # [n_heads, tokens, tokens]
        of_queries = parts(pattern[:, counted])  # [n_heads, queries, parts]
        layers.append(by_octave(of_queries.swapaxes(0, 1)))  # [OCTAVES, n_heads, parts]
    queries, logs = by_octave(np.ones(len(octave))), by_octave(np.log(seen[counted]))
    return last, (queries, logs, np.stack(layers, axis=1))


def effect(
    network: Any, ids: list[int], last: Any, intact: Any, causal: bool
) -> tuple[float, float]:
    """Of a document, the sum of its losses in nats (0 of an encoder), and of its tokens' cosines.

    A cosine is that of a token's last hidden state with the intact model's.
    """
    from posenc.capture.capture import document_losses

    nll = document_losses(network, last, [ids])[0].sum(dtype=np.float64) if causal else 0.0
    return float(nll), float(token_cosines(last.numpy(), intact.numpy()).sum())


def means_of(parameters: EffectiveKeys, sums: Floats, counts: Floats) -> list[dict[str, Interval]]:
    """Means over the queries of documents, with their intervals.

    Means of entropies are taken before exp, so that a number of keys is a geometric mean.

    Parameters
    ----------
    parameters
        Of the measurement.
    sums, counts
        [documents, k, parts]: sums over queries; and [documents]: how many these are.

    Returns
    -------
    k results, by ``NAMES``.
    """

    def statistic(totals: Floats, number: Floats) -> Floats:  # [resamples, k * parts]
        mean = totals / number[:, None, None]  # [resamples, k, parts]
        mean[..., :2] = np.exp(mean[..., :2])  # entropies
        return mean.reshape(len(mean), -1)

    means = Interval.each(sums_bootstrap([sums, counts], statistic, **bootstrap(parameters)))
    rows = [means[start : start + len(PARTS)] for start in range(0, len(means), len(PARTS))]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def pattern_results(
    parameters: EffectiveKeys, queries: Floats, of_heads: Floats
) -> tuple[dict[str, Interval], list[result.Layer]]:
    """Numbers of keys, of all heads, and by layer and head.

    Parameters
    ----------
    parameters
        Of the measurement.
    queries
        [documents, OCTAVES]: how many there are.
    of_heads
        [documents, OCTAVES, n_layers, n_heads, parts]: sums over queries.
    """
    n_layers, n_heads = of_heads.shape[2:4]
    whole = of_heads.sum(axis=1)  # [documents, n_layers, n_heads, parts]
    count = queries.sum(axis=1)  # [documents]
    (together,) = means_of(parameters, whole.mean(axis=(1, 2))[:, None], count)
    layers = means_of(parameters, whole.mean(axis=2), count)
    heads = means_of(parameters, whole.reshape(len(whole), n_layers * n_heads, -1), count)
    keys = [result.Keys(**means) for means in heads]
    return together, [
        result.Layer(layer=layer, **means, heads=keys[layer * n_heads : (layer + 1) * n_heads])
        for layer, means in enumerate(layers)
    ]


def length_results(
    parameters: EffectiveKeys, queries: Floats, logs: Floats, of_heads: Floats
) -> tuple[list[result.Length], Interval | None]:
    """Numbers of keys by how many keys a query sees, and how they grow.

    Parameters
    ----------
    parameters
        Of the measurement.
    queries, logs
        [documents, OCTAVES]: queries, and sums of the log of how many keys they see.
    of_heads
        [documents, OCTAVES, n_layers, n_heads, parts]: sums over queries.

    Returns
    -------
    lengths
        One per octave that half of the documents reach, of those that do.
    growth
        The slope of the log of the keys that are read on that of the keys that are seen, by least
        squares over these octaves; None where there are fewer than two.
    """
    reached = queries > 0  # [documents, OCTAVES]
    there = np.flatnonzero(reached.sum(axis=0) >= max(2, len(reached) / 2))  # octaves
    sums = of_heads.mean(axis=(2, 3))  # [documents, OCTAVES, parts]

    def row(octave: int) -> result.Length:
        its = reached[:, octave]  # [documents]
        number = queries[its, octave]  # [documents that reach it]
        (means,) = means_of(parameters, sums[its, octave][:, None], number)
        return result.Length(
            least=max(2**octave, FEWEST),
            documents=int(its.sum()),
            seen=geometric_mean(logs[its, octave], number),
            **means,
        )

    def slope(entropies: Floats, seen: Floats, number: Floats) -> Floats:  # [resamples]
        # A resample may lack an octave that only some documents reach.
        has = number > 0  # [resamples, octaves]
        x, y = (totals / np.where(has, number, 1) for totals in (seen, entropies))  # as `has`
        x -= x.sum(axis=1, keepdims=True) / has.sum(axis=1, keepdims=True)
        return np.asarray((has * x * y).sum(axis=1) / (has * x**2).sum(axis=1))

    parts_of = [sums[:, there, 0], logs[:, there], queries[:, there]]  # [documents, octaves] each
    options = bootstrap(parameters)
    growth = None
    if len(there) > 1:
        growth = Interval.of(sums_bootstrap(parts_of, slope, **options))
    return [row(int(octave)) for octave in there], growth


def reading_results(
    parameters: EffectiveKeys,
    ways: Sequence[tuple[str, int]],
    documents: list[list[int]],
    effects: Floats,
    causal: bool,
) -> list[result.Reading]:
    """One entry per way to read a few keys, all on the same resampled documents.

    Parameters
    ----------
    parameters, ways, documents
        Of the measurement.
    effects
        [documents, 1 + ways, 2]: sums of losses and of cosines, of the intact model first.
    causal
        Whether there are losses.
    """
    tokens = np.array([len(ids) for ids in documents])  # [documents]
    options = bootstrap(parameters)
    # All tokens of a document but the first are predicted.
    nll = PairedMeans(effects[..., 0], tokens - 1, **options)
    cosine = PairedMeans(effects[..., 1], tokens, **options)

    def reading(column: int, choice: str, keys: int | None) -> result.Reading:
        return result.Reading(
            choice=choice,
            keys=keys,
            nll=Interval.of(nll.of(lambda own: own, column)) if causal else None,
            delta_nll=Interval.of(nll.of(np.subtract, column, 0)) if causal else None,
            cosine=Interval.of(cosine.of(lambda own: own, column)),
        )

    return [reading(column, *way) for column, way in enumerate([(EVERY, None), *ways])]


main = of_tokens(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
