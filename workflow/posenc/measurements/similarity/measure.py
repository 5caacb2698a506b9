"""Similarity of each layer's hidden states under a condition to the intact ones (A1, A2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.artifacts.results import Interval
from posenc.artifacts.samples import KeptTokens, gather, layer_name
from posenc.measurements.frame import command, naming
from posenc.measurements.similarity.declaration import MEASUREMENT, Similarity
from posenc.measurements.similarity.result import GaussianNull, Layer, Similarities
from posenc.metrics.bootstrap import percentile_interval, ratio_replicates
from posenc.metrics.pairs import pair_replicates
from posenc.metrics.representation import (
    centred_cosines,
    linear_cka,
    retrieval_at_1,
    standardised_cosines,
)
from posenc.metrics.sampling import sampled
from posenc.metrics.similarity import (
    gaussian_null_sd,
    histogram,
    random_pairs,
    rescaled,
    same_document_pairs,
    same_token_pairs,
    same_token_partners,
    token_cosines,
)

RESCALED = {
    "baseline": "rescaled",
    "same_document": "rescaled_same_document",
    "same_token": "rescaled_same_token",
}
"""By null: what the cosine is called on the scale where the null is 0."""


def measure(
    parameters: Similarity, intact: ActivationStore, condition: ActivationStore
) -> Similarities:
    """Compute the measurement, layer after layer; within a layer, shard after shard.

    A layer of a shard is contiguous on disk, so every byte is read once, and only one cosine per
    token is held.
    """
    n_documents, n_states = len(intact.documents), intact.metadata["n_layers"] + 1
    d_model = intact.metadata["d_model"]
    tokens = KeptTokens(intact, parameters.special_tokens)
    if len(np.unique(tokens.document)) < 2:
        raise ArtifactError(
            f"{intact.directory} holds one document; the baseline of random pairs needs two: "
            f"raise evaluation.documents in params.yaml"
        )
    # Independent streams, so that the pairs and the bootstrap of documents do not correlate.
    pair_seed, _, document_seed, sample_seed, same_pair_seed, _, inside_pair_seed = (
        np.random.SeedSequence(parameters.seed).spawn(7)
    )
    # [sampled]
    sample = sampled(np.arange(len(tokens.document)), parameters.sample_tokens, sample_seed)
    compared: list[dict[str, Interval | float]] = []
    count = parameters.baseline_pairs
    pairs = {"baseline": random_pairs(tokens.document, count, pair_seed)}  # [pairs] each
    token = np.concatenate(
        [intact.token_ids(shard)[keep] for shard, keep in enumerate(tokens.masks)]
    )  # [kept]
    same_document = np.unique(np.stack([tokens.document, token]), axis=1)[0]  # [different tokens]
    if len(np.unique(same_document)) < len(same_document):  # a document has two of them
        pairs["same_document"] = same_document_pairs(
            token, tokens.document, count, inside_pair_seed
        )
    same_token_share = float(np.mean(same_token_partners(token, tokens.document) > 0))
    if same_token_share > 0:  # documents of a few words may have none in common
        pairs["same_token"] = same_token_pairs(token, tokens.document, count, same_pair_seed)

    sums = np.empty((n_documents, n_states))  # of cosines
    token_sd = np.empty(n_states)
    nulls = {name: np.empty((count, n_states)) for name in pairs}  # cosines of pairs
    histograms: dict[str, list[float] | dict[str, list[float]]] = {}
    total = n_states * intact.n_shards
    with tqdm(total=total, unit="shard", desc="similarity", mininterval=5) as progress:
        for state in range(n_states):
            parts = []
            for shard, keep in enumerate(tokens.masks):
                x = intact.hidden_states(shard)[state]  # [tokens of the shard, d_model]
                y = condition.hidden_states(shard)[state]  # [tokens of the shard, d_model]
                place = f"{condition.directory}, {layer_name(state, n_states)}, shard {shard}"
                with naming(place):
                    parts.append(token_cosines(x, y)[keep])
                progress.update()
            cosines = np.concatenate(parts)  # [kept]
            sums[:, state] = np.bincount(tokens.document, cosines, minlength=n_documents)
            token_sd[state] = cosines.std()
            for name, (i, j) in pairs.items():
                nulls[name][:, state] = token_cosines(
                    gather(intact, state, tokens.shard[i], tokens.row[i]),
                    gather(intact, state, tokens.shard[j], tokens.row[j]),
                )
            where = tokens.shard[sample], tokens.row[sample]
            compared.append(
                compare(
                    parameters,
                    gather(intact, state, *where),
                    gather(condition, state, *where),
                    tokens.document[sample],
                    document_seed,
                )
            )
            if state in (0, n_states - 1):
                shown = {"cosine": cosines} | {name: of[:, state] for name, of in nulls.items()}
                densities = {}
                for name, values in shown.items():
                    edges, density = histogram(values, parameters.histogram_bins)
                    densities[name] = density.tolist()
                histograms |= {"edges": edges.tolist(), layer_name(state, n_states): densities}

    counts = np.bincount(tokens.document, minlength=n_documents)  # [documents]
    of_pairs = {
        name: (tokens.document[i], tokens.document[j]) for name, (i, j) in pairs.items()
    }  # [pairs] each
    return Similarities(
        documents=n_documents,
        tokens=len(tokens.document),
        confidence=parameters.confidence,
        d_model=d_model,
        sample_tokens=len(sample),
        same_token_share=same_token_share,
        layers=layers(parameters, sums, counts, token_sd, nulls, of_pairs, document_seed, compared),
        gaussian_null=GaussianNull(mean=0.0, sd=gaussian_null_sd(d_model)),
        histograms=histograms,
    )


def compare(
    parameters: Similarity,
    x: NDArray[np.floating],  # [sampled, d_model]
    y: NDArray[np.floating],  # [sampled, d_model]
    document: NDArray[np.int64],  # [sampled]
    seed: np.random.SeedSequence,
) -> dict[str, Interval | float]:
    """What compares sampled tokens with each other: without the mean, by rank, as a whole.

    Means have intervals over documents; linear CKA, which is no mean over tokens, has none.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    counts = np.bincount(document)  # [documents]
    results: dict[str, Interval | float] = {"cka": linear_cka(x, y)}
    columns = {
        "centred": centred_cosines(x, y),
        "standardised": standardised_cosines(x, y),
        "retrieval": retrieval_at_1(x, y),
    }
    for name, values in columns.items():  # [sampled] each
        sums = np.bincount(document, values)  # [documents]
        replicates = ratio_replicates(sums, counts, parameters.bootstrap_samples, seed)
        results[name] = Interval.of(
            percentile_interval(sums.sum() / counts.sum(), replicates, parameters.confidence)
        )
    return results


def layers(
    parameters: Similarity,
    sums: NDArray[np.float64],  # [documents, n_layers + 1]
    counts: NDArray[np.int64],  # [documents]
    token_sd: NDArray[np.float64],  # [n_layers + 1]
    nulls: dict[str, NDArray[np.float64]],  # by name [pairs, n_layers + 1]
    of_pairs: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]],  # by name [pairs] each
    document_seed: np.random.SeedSequence,
    compared: list[dict[str, Interval | float]],  # by layer, what `compare` returns
) -> list[Layer]:
    """Each layer: cosine, nulls and the cosine rescaled by each, with their intervals.

    All are bootstrapped over the same documents. A null knows the documents of each pair: however
    many pairs are drawn, they are of these documents. A null without pairs is None, and so is the
    cosine that it rescales. The latter is also None where all tokens of one id are alike, as at an
    embedding without position, or all of one document: above such a null there is no room.
    """
    samples, confidence = parameters.bootstrap_samples, parameters.confidence
    n_states = len(token_sd)
    # [samples, n_layers + 1] and [n_layers + 1]
    cosine_replicates = ratio_replicates(sums, counts, samples, document_seed)
    mean_cosine = sums.sum(axis=0) / counts.sum()
    columns: dict[str, Sequence[Interval | None]] = {
        "cosine": Interval.each(percentile_interval(mean_cosine, cosine_replicates, confidence))
    }
    number = np.cumsum(counts > 0) - 1  # [documents]: among those that have tokens
    for name, name_rescaled in RESCALED.items():
        if name not in nulls:
            columns[name] = columns[name_rescaled] = [None] * n_states
            continue
        first, second = (number[part] for part in of_pairs[name])  # [pairs] each
        replicates = pair_replicates(
            nulls[name], first, second, things=number[-1] + 1, samples=samples, seed=document_seed
        )  # [samples, n_layers + 1]
        has_pair = ~np.isnan(replicates).any(axis=1)  # [samples]: few documents may have none
        replicates, with_pair = replicates[has_pair], cosine_replicates[has_pair]
        mean = nulls[name].mean(axis=0)  # [n_layers + 1]
        columns[name] = Interval.each(percentile_interval(mean, replicates, confidence))
        columns[name_rescaled] = [
            None
            if name != "baseline" and max(mean[state], replicates[:, state].max()) >= 1
            else Interval.of(
                percentile_interval(
                    rescaled(mean_cosine[state], mean[state]),
                    rescaled(with_pair[:, state], replicates[:, state]),
                    confidence,
                )
            )
            for state in range(n_states)
        ]
    return [
        Layer.model_validate(
            {
                "layer": state,
                "name": layer_name(state, n_states),
                "token_sd": float(token_sd[state]),
                **{name: column[state] for name, column in columns.items()},
                **compared[state],
            }
        )
        for state in range(n_states)
    ]


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
