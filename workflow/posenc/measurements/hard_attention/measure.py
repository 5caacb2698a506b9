"""Soft and hard read-outs of real attention patterns, and the gradient's variance (E1, E2).

Two things are read with the same patterns:

- The hidden states that a layer is given, as the annotations of Bahdanau et al. (2015) and Xu et
  al. (2015) are, without a value matrix, which the sources do not have. The target is the hidden
  state that the layer leaves at the query's position. Both are standardised over their entries, so
  that layers and models have one unit.
- What a Transformer's head reads: for each key its value, passed through the head's part of the
  output map (:mod:`posenc.models.values`). The soft read-out is exactly what the head adds to the
  residual stream. The target is what all heads add at the query, with the output map's bias: what
  the sub-layer gives. Both are in units of the target's root mean square, so that a head that adds
  nothing has f = -1/2.

f(v) = -‖v - t‖² / (2 d) is Xu's log p(y | a) for a normal law about the read-out, less its
constant. Estimates of the gradient are drawn for hidden states alone; of values, all is exact.
``noise`` says how far the read-out of one drawn key is from the soft one, ‖v_i - v̄‖² as a share of
‖v̄‖², and depends on neither target. What a value map adds to all keys alike counts as v̄.
"""

from __future__ import annotations

import numpy as np
from tqdm import tqdm

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError
from posenc.artifacts.results import Interval, NotMeasured, Result
from posenc.measurements.frame import (
    Config,
    Job,
    Output,
    Stores,
    attempted,
    lacking,
    measure_runs,
    naming,
    not_run,
)
from posenc.measurements.hard_attention import result
from posenc.measurements.hard_attention.declaration import MEASUREMENT, HardAttention
from posenc.measurements.hard_attention.queries import (
    Queries,
    Shards,
    drawn_queries,
    pattern,
    places,
    read_values,
    states,
)
from posenc.measurements.heads.measure import not_rebuilt
from posenc.measurements.of_models import Model, WeightsFolder
from posenc.metrics.bootstrap import Estimate
from posenc.metrics.hard_attention import BASELINES, scaled_to
from posenc.metrics.hard_attention_means import (
    Columns,
    Means,
    Row,
    Settings,
    exactly,
    joined,
    largest_errors,
    largest_z,
    of_query,
)
from posenc.metrics.sampling import sampled_heads
from posenc.models.discovered import Discovered, tensors_of
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.models.values import ValueMaps, ValueWeights


class RunsJob(Job[HardAttention]):
    """What the measurement of one model's runs depends on, besides its files and stores."""

    reading: Reading


Both = tuple[Columns, Columns]
"""Results of each query, reading hidden states and values."""
ByHead = dict[tuple[int, int], Both]
"""The same by layer and head."""


def main(
    model: Model, config: Config, weights: WeightsFolder, activations: Stores, output: Output
) -> None:
    """Write OUTPUT/DATASET.json for each data set."""
    job = read_section(config, RunsJob)
    digests = model_digests(weights)
    reason = lacking(MEASUREMENT, weights)
    maps = None if reason else tensors_of(ValueWeights, weights, job.reading.family)

    def of_run(
        parameters: HardAttention, intact: ActivationStore, condition: ActivationStore
    ) -> Result | NotMeasured:
        made_of = condition.metadata["inputs"]
        if any(made_of[name] != digest for name, digest in digests.items()):
            raise ArtifactError(f"{condition.directory} is of other weights; rerun to make it")
        if maps is None:
            return not_run(str(reason), parameters)
        return attempted(parameters, measure, parameters, condition, maps)

    measure_runs(MEASUREMENT, job, of_run, activations, output, beside=digests)


def measure(
    parameters: HardAttention, store: ActivationStore, weights: ValueWeights | Discovered
) -> result.Attention | NotMeasured:
    """Compute the measurement of one store, head after head.

    Queries are random tokens that see at least two keys: with one key there is nothing to choose.
    Intervals are over documents; the heads are those drawn.
    """
    metadata = store.metadata
    reason = not_rebuilt(metadata)
    if reason:
        return not_run(f"condition {metadata['run']['condition']}: {reason}", parameters)
    settings = Settings(
        parameters.samples, parameters.repeats, parameters.bootstrap_samples,
        parameters.confidence, parameters.seed,
    )  # fmt: skip
    generator = np.random.default_rng([parameters.seed, 0])
    heads = sampled_heads(metadata["n_layers"], metadata["n_heads"], parameters.heads, generator)
    queries = drawn_queries(store, parameters.queries, generator)
    by_head = of_heads(settings, store, weights, queries, heads)

    def part(both: list[Both]) -> result.OfPatterns:
        return of_patterns(*means(both, queries, settings))

    both = list(by_head.values())
    states, values = means(both, queries, settings)
    baselines = [baseline(states, place) for place in range(len(BASELINES))]
    z = [sampled.bias.z for entry in baselines for sampled in entry.samples]
    return result.Attention(
        documents=len(np.unique(queries.document)),
        tokens=len(queries.document),
        confidence=settings.confidence,
        is_causal=metadata["is_decoder"],
        n_layers=metadata["n_layers"],
        n_heads=metadata["n_heads"],
        repeats=settings.repeats,
        entropy=Interval.of(states.mean("entropy")),
        uniform=Interval.of(states.mean("uniform")),
        **dict(readouts(states)),
        readout_distance=known(states.ratio(("distance",), ("expected_distance",))),
        signal=Interval.of(states.mean("signal")),
        baselines=baselines,
        bias=result.LargestBias(**largest_z(z, settings.confidence)._asdict()),
        soft_gradient=soft_gradient(states),
        checks=result.Checks(**largest_errors(joined([columns for columns, _ in both]))),
        values=of_values(values, joined([columns for _, columns in both])),
        layers=[
            result.Layer(layer=layer, heads=len(own), **dict(part(own)))
            for layer, own in by_layer(by_head).items()
        ],
        heads=[
            result.Head(layer=layer, head=head, **dict(part([own])))
            for (layer, head), own in by_head.items()
        ],
    )


def means(both: list[Both], queries: Queries, settings: Settings) -> tuple[Means, Means]:
    """Means over the queries of some heads, of hidden states and of values."""
    states, values = zip(*both, strict=True)
    return (
        Means(joined(list(states)), queries.document, settings),
        Means(joined(list(values)), queries.document, settings),
    )


def known(estimate: Estimate | None) -> Interval | None:
    """The interval of an estimate, if there is one."""
    return None if estimate is None else Interval.of(estimate)


def readouts(means: Means) -> result.Readouts:
    """Objective of both read-outs, and squared errors of a hard one."""
    return result.Readouts(
        soft=Interval.of(means.mean("soft")),
        hard=Interval.of(means.mean("hard")),
        noise=known(means.ratio(("spread",), ("square",))),
        noise_anywhere=known(means.ratio(("anywhere",), ("square",))),
    )


def exact(means: Means) -> result.Exact:
    """What is known without drawing keys."""
    places = dict(enumerate(BASELINES))
    variance = {name: Interval.of(means.mean("variance", p)) for p, name in places.items()}
    ratio = {name: known(over_none(means, p)) for p, name in places.items() if p}
    return result.Exact(
        **dict(readouts(means)),
        variance=result.Variances(**variance),
        ratio=result.Ratios(**ratio),
    )


def of_patterns(states: Means, values: Means) -> result.OfPatterns:
    """What is reported of a layer, or of a head."""
    return result.OfPatterns(
        **dict(exact(states)),
        entropy=Interval.of(states.mean("entropy")),
        uniform=Interval.of(states.mean("uniform")),
        values=exact(values),
    )


def of_values(means: Means, columns: Columns) -> result.Values:
    """What is reported of a run whose heads read their own values."""
    samples = {
        name: known(means.ratio(("variance", place), ("signal",)))
        for place, name in enumerate(BASELINES)
    }
    return result.Values(
        **dict(exact(means)),
        signal=Interval.of(means.mean("signal")),
        samples_to_signal=result.SamplesToSignal(**samples),
        soft_gradient=soft_gradient(means),
        checks=result.Checks(**largest_errors(columns)),
    )


def soft_gradient(means: Means) -> result.SoftGradient:
    """How far the soft read-out's gradient is from the hard one's."""
    return result.SoftGradient(
        square=Interval.of(means.mean("soft_error")),
        error=known(means.ratio(("soft_error",), ("signal",))),
        cosine=known(means.cosine()),
    )


def baseline(means: Means, place: int) -> result.Baseline:
    """What is reported of the baseline at a place in ``BASELINES``."""
    variance = ("variance", place)
    return result.Baseline(
        name=BASELINES[place],
        value=Interval.of(means.mean("value", place)),
        ratio=known(over_none(means, place)),
        over_optimal=known(means.ratio(variance, ("variance", BASELINES.index("optimal")))),
        worse=Interval.of(means.mean("worse", place)),
        samples_to_signal=known(means.ratio(variance, ("signal",))),
        samples_to_soft=known(means.ratio(variance, ("soft_error",))),
        samples=[estimates(means, turn, place) for turn in range(len(means.settings.samples))],
    )


def over_none(means: Means, place: int) -> Estimate | None:
    """Variance with the baseline at a place over that with none."""
    return means.ratio(("variance", place), ("variance", BASELINES.index("none")))


def estimates(means: Means, turn: int, place: int) -> result.Sampled:
    """Estimates from a number of samples: variance, exact and simulated, and their bias."""
    samples, variance = means.settings.samples[turn], ("variance", place)
    simulated, repeats = ("simulated", turn, place), means.settings.repeats
    square = means.ratio(("error", turn, place), variance, samples * repeats)
    return result.Sampled(
        samples=samples,
        variance=Interval.of(means.variance(samples, place)),
        simulated=Interval.of(means.mean(*simulated)),
        agreement=known(means.ratio(simulated, variance, samples)),
        bias=result.Bias(square=known(square), **means.along(turn, samples, place)._asdict()),
    )


def of_heads(
    settings: Settings,
    store: ActivationStore,
    weights: ValueWeights | Discovered,
    queries: Queries,
    heads: list[tuple[int, int]],
) -> ByHead:
    """Results of each query, for each head.

    Raises
    ------
    ArtifactError
        If a score or a hidden state is not finite.
    """
    shards = {
        shard: (store.hidden_states(shard), store.queries(shard), store.keys(shard))
        for shard in np.unique(queries.shard).tolist()
    }
    by_head: ByHead = {}
    with tqdm(total=len(heads), unit="head", desc="hard attention", mininterval=5) as progress:
        for layer in dict.fromkeys(layer for layer, _ in heads):
            of_layer = [head for head_layer, head in heads if head_layer == layer]
            with naming(f"{store.directory}, layer {layer}"):
                columns = layer_columns(
                    settings, shards, weights.maps(layer), queries, layer, of_layer
                )
            by_head |= {(layer, head): columns[head] for head in of_layer}
            progress.update(len(of_layer))
    return by_head


def by_layer(by_head: ByHead) -> dict[int, list[Both]]:
    """Results of the heads of each layer."""
    layers: dict[int, list[Both]] = {}
    for (layer, _), columns in by_head.items():
        layers.setdefault(layer, []).append(columns)
    return layers


def layer_columns(
    settings: Settings,
    shards: Shards,
    maps: ValueMaps,
    queries: Queries,
    layer: int,
    heads: list[int],
) -> dict[int, Both]:
    """Results of each query, for each of a layer's heads: of hidden states and of values."""
    # A head's draws do not depend on which other heads are drawn.
    generators = {head: np.random.default_rng([settings.seed, 1, layer, head]) for head in heads}
    rows: dict[int, list[tuple[Row, Row]]] = {head: [] for head in heads}
    for place in places(queries):
        given, target = states(shards, layer, *place)  # [keys, d_model], [d_model]
        patterns = np.stack(
            [pattern(shards, layer, head, *place) for head in range(len(maps.output))]
        )  # [n_heads, keys]
        values, output = read_values(shards, maps, patterns, layer, *place)
        for head in heads:
            added = scaled_to(
                values[head] @ maps.output[head], output
            )  # [keys, d_model], [d_model]
            rows[head].append(
                (
                    of_query(patterns[head], given, target, settings, generators[head]),
                    exactly(patterns[head], *added),
                )
            )

    def columns(entries: tuple[Row, ...]) -> Columns:
        return {name: np.array([entry[name] for entry in entries]) for name in entries[0]}

    by_head = {}
    for head, pairs in rows.items():
        drawn, exact = zip(*pairs, strict=True)
        by_head[head] = columns(drawn), columns(exact)
    return by_head


if __name__ == "__main__":
    run(main)
