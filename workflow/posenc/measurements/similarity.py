"""Similarity of each layer's hidden states under a condition to the intact ones (A1, A2)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.config.base import Confidence, Count, Draws, Samples, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, RUN, Measurement
from posenc.measurements.frame import command, naming
from posenc.metrics.bootstrap import percentile_interval, ratio_replicates
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
    token_cosines,
)
from posenc.store.activations import ActivationStore
from posenc.store.samples import KeptTokens, gather, layer_name


class Similarity(Section):
    """Per-token cosine of hidden states between a condition and the intact model (A1, A2)."""

    special_tokens: bool
    """Whether [CLS], [SEP] and the like count as tokens."""
    baseline_pairs: Annotated[Draws, Field(ge=100)]
    """Random token pairs of the intact model, for the anisotropy baseline of each layer."""
    histogram_bins: Annotated[Count, Field(ge=10)]
    """Bins of the histograms over [-1, 1]."""
    bootstrap_samples: Samples
    confidence: Confidence
    sample_tokens: Annotated[Draws, Field(ge=100)]
    """Random tokens for what compares tokens with each other: centred and standardised cosine,
    linear CKA, retrieval."""
    seed: Seed


MEASUREMENT = Measurement(
    "similarity", Similarity, of=RUN, reads=(ACTIVATIONS,), catalogue=("A1", "A2"), schema=2,
    always=True,
)  # fmt: skip


def measure(
    parameters: Similarity, intact: ActivationStore, condition: ActivationStore
) -> dict[str, Any]:
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
    # Independent streams, so that the pairs, their bootstrap and the documents' do not correlate.
    pair_seed, baseline_seed, document_seed, sample_seed = np.random.SeedSequence(
        parameters.seed
    ).spawn(4)
    # [sampled]
    sample = sampled(np.arange(len(tokens.document)), parameters.sample_tokens, sample_seed)
    compared: list[dict[str, Any]] = []
    i, j = random_pairs(tokens.document, parameters.baseline_pairs, pair_seed)  # [pairs] each

    sums = np.empty((n_documents, n_states))  # of cosines
    token_sd = np.empty(n_states)
    baseline = np.empty((len(i), n_states))
    histograms: dict[str, Any] = {}
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
            baseline[:, state] = token_cosines(
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
                edges, density = histogram(cosines, parameters.histogram_bins)
                _, null = histogram(baseline[:, state], parameters.histogram_bins)
                histograms["edges"] = edges.tolist()
                histograms[layer_name(state, n_states)] = {
                    "cosine": density.tolist(),
                    "baseline": null.tolist(),
                }

    counts = np.bincount(tokens.document, minlength=n_documents)  # [documents]
    return {
        "documents": n_documents,
        "tokens": len(tokens.document),
        "confidence": parameters.confidence,
        "d_model": d_model,
        "sample_tokens": len(sample),
        "layers": [
            {**layer, **others}
            for layer, others in zip(
                layers(parameters, sums, counts, token_sd, baseline, baseline_seed, document_seed),
                compared,
                strict=True,
            )
        ],
        "gaussian_null": {"mean": 0.0, "sd": gaussian_null_sd(d_model)},
        "histograms": histograms,
    }


def compare(
    parameters: Similarity,
    x: NDArray[np.floating],  # [sampled, d_model]
    y: NDArray[np.floating],  # [sampled, d_model]
    document: NDArray[np.int64],  # [sampled]
    seed: np.random.SeedSequence,
) -> dict[str, Any]:
    """What compares sampled tokens with each other: without the mean, by rank, as a whole.

    Means have intervals over documents; linear CKA, which is no mean over tokens, has none.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    counts = np.bincount(document)  # [documents]
    found: dict[str, Any] = {"cka": linear_cka(x, y)}
    columns = {
        "centred": centred_cosines(x, y),
        "standardised": standardised_cosines(x, y),
        "retrieval": retrieval_at_1(x, y),
    }
    for name, values in columns.items():  # [sampled] each
        sums = np.bincount(document, values)  # [documents]
        replicates = ratio_replicates(sums, counts, parameters.bootstrap_samples, seed)
        found[name] = percentile_interval(
            sums.sum() / counts.sum(), replicates, parameters.confidence
        ).as_json()
    return found


def layers(
    parameters: Similarity,
    sums: NDArray[np.float64],  # [documents, n_layers + 1]
    counts: NDArray[np.int64],  # [documents]
    token_sd: NDArray[np.float64],  # [n_layers + 1]
    baseline: NDArray[np.float64],  # [pairs, n_layers + 1]
    baseline_seed: np.random.SeedSequence,
    document_seed: np.random.SeedSequence,
) -> list[dict[str, Any]]:
    """One entry per layer: cosine, baseline and rescaled cosine with their intervals.

    The cosine is bootstrapped over documents and the baseline over pairs; an interval of the
    rescaled cosine takes both in.
    """
    samples, confidence = parameters.bootstrap_samples, parameters.confidence
    ones = np.ones(len(baseline))  # [pairs]
    # [samples, n_layers + 1] each
    cosine_replicates = ratio_replicates(sums, counts, samples, document_seed)
    baseline_replicates = ratio_replicates(baseline, ones, samples, baseline_seed)
    rescaled_replicates = rescaled(cosine_replicates, baseline_replicates)
    # [n_layers + 1] each
    mean_cosine, mean_baseline = sums.sum(axis=0) / counts.sum(), baseline.mean(axis=0)
    columns = {
        "cosine": percentile_interval(mean_cosine, cosine_replicates, confidence),
        "baseline": percentile_interval(mean_baseline, baseline_replicates, confidence),
        "rescaled": percentile_interval(
            rescaled(mean_cosine, mean_baseline), rescaled_replicates, confidence
        ),
    }
    estimates = {name: estimate.as_json() for name, estimate in columns.items()}
    return [
        {
            "layer": state,
            "name": layer_name(state, len(token_sd)),
            "cosine": estimates["cosine"][state],
            "token_sd": float(token_sd[state]),
            "baseline": estimates["baseline"][state],
            "rescaled": estimates["rescaled"][state],
        }
        for state in range(len(token_sd))
    ]


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
