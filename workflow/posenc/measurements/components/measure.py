"""Principal and independent components of hidden states, and what of position is in them (C4).

One sample of tokens serves all layers: tokens of text at positions from 1 on, drawn without
replacement from all documents. Position is the token's index in its document. What texts have in
common at a position counts as position too; the encoder without position embeddings shows how much
that is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.artifacts.results import Interval, Spread
from posenc.artifacts.samples import KeptTokens, gather, layer_name
from posenc.measurements.components import result
from posenc.measurements.components.declaration import MEASUREMENT, Components
from posenc.measurements.frame import command, naming
from posenc.metrics.bootstrap import percentile_interval, ratio_replicates
from posenc.metrics.components import (
    canonical_correlations,
    fourier_basis,
    held_out_moments,
    principal_components,
    variance_between,
)
from posenc.metrics.independent import (
    Independent,
    amari_chance,
    amari_index,
    several_starts,
)
from posenc.metrics.moments import correlation_of_moments
from posenc.metrics.null_tables import spread
from posenc.metrics.sampling import sampled

FOLDS = 5
"""Folds of documents for canonical correlations."""
SHUFFLES = 20
"""How often positions are shuffled to estimate the level of chance."""
ADVICE = (
    "lower components, harmonics or raise tokens of measurements.components in params.yaml, and "
)
"""For a layer that cannot be measured."""


@dataclass(frozen=True)
class Sample:
    """Tokens that are drawn once for all layers.

    Attributes
    ----------
    document, position
        int64 [n]: index of each token's document, and its position in it.
    shard, row
        int64 [n]: where their hidden states lie.
    length
        Tokens of the longest document, special ones included.
    """

    document: NDArray[np.int64]
    position: NDArray[np.int64]
    shard: NDArray[np.int64]
    row: NDArray[np.int64]
    length: int


def measure(
    parameters: Components, intact: ActivationStore, condition: ActivationStore
) -> result.PositionComponents:
    """Compute the measurement of one store, layer after layer."""
    sample_seed, split_seed, control_seed = np.random.SeedSequence(parameters.seed).spawn(3)
    sample = drawn(condition, parameters.tokens, sample_seed)
    tokens, documents = len(sample.document), len(np.unique(sample.document))
    if documents < FOLDS:
        raise ArtifactError(
            f"{condition.directory} has {documents} documents of text; {FOLDS} are needed: raise "
            f"evaluation.documents in params.yaml"
        )
    basis = fourier_basis(sample.position, sample.length, parameters.harmonics)  # [n, 2 harmonics]
    # The same tokens with the positions of others: whatever they show is chance.
    generator = np.random.default_rng(control_seed)
    orders = np.stack([generator.permutation(tokens) for _ in range(SHUFFLES)])  # [shuffles, n]
    halves = np.random.default_rng(split_seed).permutation(int(sample.document.max()) + 1)
    half = halves[sample.document] % 2 == 0  # [n]
    layers = []
    n_states = condition.metadata["n_layers"] + 1
    for state in tqdm(range(n_states), unit="layer", desc="components", mininterval=5):
        x = gathered(condition, state, sample)  # [n, d_model]
        with naming(f"{condition.directory}, layer {state}", ADVICE):
            principal, independent, canonical = of_layer(parameters, x, sample, basis, orders, half)
        layers.append(
            result.Layer(
                layer=state,
                name=layer_name(state, n_states),
                principal=principal,
                independent=independent,
                canonical=canonical,
            )
        )
    return result.PositionComponents(
        documents=documents,
        tokens=tokens,
        confidence=parameters.confidence,
        components=parameters.components,
        positions=len(np.unique(sample.position)),
        periods=[2 * sample.length / k for k in range(1, parameters.harmonics + 1)],
        folds=FOLDS,
        shuffles=SHUFFLES,
        amari_between_halves=largest_between_halves(layers),
        amari_chance=amari_chance(parameters.components, 200, parameters.seed),
        layers=layers,
    )


def drawn(store: ActivationStore, tokens: int, seed: np.random.SeedSequence) -> Sample:
    """Draw tokens of text, position 0 left out."""
    kept = KeptTokens(store, special_tokens=False)
    # Position 0 holds the same special token in every document: it would give itself away.
    chosen = sampled(np.flatnonzero(kept.position > 0), tokens, seed)  # [n]
    return Sample(
        document=kept.document[chosen],
        position=kept.position[chosen],
        shard=kept.shard[chosen],
        row=kept.row[chosen],
        length=int(store.documents["length"].to_numpy().max()),
    )


def gathered(store: ActivationStore, state: int, sample: Sample) -> NDArray[np.float64]:
    """Hidden states of a layer at the drawn tokens, [n, d_model]."""
    return gather(store, state, sample.shard, sample.row).astype(np.float64)


def of_layer(
    parameters: Components,
    x: NDArray[np.float64],  # [n, d_model]
    sample: Sample,
    basis: NDArray[np.float64],  # [n, 2 harmonics]
    orders: NDArray[np.int64],  # [shuffles, n]
    half: NDArray[np.bool_],  # [n]
) -> tuple[result.Principal, result.Independent, result.Canonical]:
    """Shares of variance, components and position, canonical correlations."""
    principal = principal_components(x, parameters.components)
    independent = several_starts(principal.scores, seed=parameters.seed)
    halves = [
        several_starts(principal.scores[part], seed=parameters.seed) for part in (half, ~half)
    ]
    positions = sample.position
    shuffled_positions = positions[orders[0]]  # [n]
    share, chance = [], []  # of [components], a start each
    for search in independent:
        between = variance_between(search.sources, positions)  # [components]
        rank = np.argsort(-between, kind="stable")  # they come in no order
        share.append(between[rank])
        chance.append(variance_between(search.sources, shuffled_positions)[rank])
    in_sample = canonical_correlations(principal.scores, basis).correlations  # [pairs]
    of_position = result.Principal(
        position_share=variance_between(principal.scores, positions).tolist(),
        position_share_shuffled=variance_between(principal.scores, shuffled_positions).tolist(),
        variance_share=principal.variance.tolist(),
        cumulative_share=np.cumsum(principal.variance).tolist(),
    )
    of_starts = result.Independent(
        position_share=np.mean(share, axis=0).tolist(),
        position_share_shuffled=np.mean(chance, axis=0).tolist(),
        largest_share=over_starts([of_start[0] for of_start in share]),
        converged=all(search.converged for search in independent),
        iterations=max(search.iterations for search in independent),
        rank=independent[0].rank,
        halves_converged=all(search.converged for half in halves for search in half),
        amari_between_halves=[between_halves(*two) for two in zip(*halves, strict=True)],
    )
    of_waves = result.Canonical(
        in_sample=in_sample.tolist(),
        held_out=held_out(parameters, principal.scores, basis, sample.document),
        shuffled=shuffled(parameters, principal.scores, basis, sample.document, orders),
    )
    return of_position, of_starts, of_waves


def over_starts(values: ArrayLike) -> Spread | None:
    """Mean, least and most of values [starts]."""
    of_starts = spread(values)
    return None if of_starts is None else Spread(**of_starts)


def between_halves(half: Independent, other: Independent) -> float | None:
    """How far the components of two halves are apart; None where one has fewer than it has signals.

    See :func:`posenc.metrics.independent.amari_index`.
    """
    signals = half.unmixing.shape[1]
    if (half.rank, other.rank) != (signals, signals):
        return None
    return amari_index(half.unmixing, np.linalg.inv(other.unmixing))


def largest_between_halves(layers: list[result.Layer]) -> Spread | None:
    """How far apart the components of two halves are, over starts, in the layer where most so.

    None where those of a layer are not compared.
    """
    by_layer = [layer.independent.amari_between_halves for layer in layers]
    if any(None in starts for starts in by_layer):
        return None
    return over_starts(np.max(np.array(by_layer, np.float64), axis=0))  # [starts]


def held_out(
    parameters: Components,
    scores: NDArray[np.float64],  # [n, components]
    basis: NDArray[np.float64],  # [n, 2 harmonics]
    document: NDArray[np.int64],  # [n]
) -> list[Interval]:
    """Canonical correlations in held-out documents, with intervals over those.

    The directions stay as they were fitted when documents are resampled.
    """
    moments = held_out_moments(scores, basis, document, folds=FOLDS, seed=parameters.seed)
    flat = moments.reshape(len(moments), -1)  # [documents, 6 * pairs]
    counts = moments[:, 0, 0]  # [documents]
    replicates = ratio_replicates(flat, counts, parameters.bootstrap_samples, parameters.seed)
    return Interval.each(
        percentile_interval(
            correlation_of_moments(moments.sum(axis=0)),
            correlation_of_moments(replicates.reshape(-1, *moments.shape[1:])),
            parameters.confidence,
        )
    )


def shuffled(
    parameters: Components,
    scores: NDArray[np.float64],  # [n, components]
    basis: NDArray[np.float64],  # [n, 2 harmonics]
    document: NDArray[np.int64],  # [n]
    orders: NDArray[np.int64],  # [shuffles, n]
) -> list[Interval]:
    """The same with shuffled positions: mean, and interval over shuffles."""
    options = {"folds": FOLDS, "seed": parameters.seed}
    correlations = np.stack(
        [
            correlation_of_moments(
                held_out_moments(scores, basis[order], document, **options).sum(axis=0)
            )
            for order in orders
        ]
    )  # [shuffles, pairs]
    return Interval.each(
        percentile_interval(correlations.mean(axis=0), correlations, parameters.confidence)
    )


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
