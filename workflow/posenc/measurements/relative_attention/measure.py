"""What a model's weights alone say about where its heads look (C3)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.measurements.of_models import Job, of_weights
from posenc.measurements.relative_attention.declaration import MEASUREMENT, RelativeAttention
from posenc.measurements.relative_attention.result import (
    Head,
    NullRotation,
    Pair,
    Profile,
    RelativeOffsets,
    Residuals,
)
from posenc.metrics.geometry import pca_shares
from posenc.metrics.head_offsets import HeadOffsets, head_offsets
from posenc.metrics.heads import mean_offset, preference
from posenc.metrics.relative_attention import null_rotation_demonstration, position_input
from posenc.models.discovered import tensors_of
from posenc.models.heads import HeadWeights

PAIRS = 4
"""Pairs of signals that are kept of each head: those that contribute most."""
COMPONENTS = (4, 12)
"""Leading principal components of the position embeddings whose share of the variance is kept."""
INPUT = {
    True: "the block's LayerNorm of position embedding + mean token embedding",
    False: "the embeddings' LayerNorm of position embedding + mean token embedding + type 0",
}
"""By whether each block begins with a normalisation of its own."""


def measure(job: Job[RelativeAttention], folder: Path) -> RelativeOffsets:
    """All heads, layer after layer, and the identities on these weights.

    Raises
    ------
    ArtifactError
        If there are too few positions for the offsets.
    """
    parameters, family = job.parameters, job.reading.family
    weights, is_decoder = tensors_of(HeadWeights, folder, family), job.reading.is_decoder
    tokens, positions = weights.embeddings()
    rows = min(parameters.rows, job.reading.max_tokens, len(positions))
    if rows <= 2 * parameters.offsets or rows < 8:
        raise ArtifactError(
            f"{folder} has {rows} positions, too few for offsets of {parameters.offsets}: lower "
            f"measurements.relative_attention.offsets in params.yaml"
        )
    positions = positions[:rows].astype(np.float64)  # [rows, d_model]
    shares = pca_shares(positions)  # [min(rows, d_model)]
    constant = tokens.mean(axis=0, dtype=np.float64) + weights.token_type()  # [d_model]
    heads: list[Head] = []
    residuals: list[dict[str, float]] = []
    demonstration = None
    for layer in range(weights.n_layers):
        x = position_input(positions, constant, *weights.input_norm(layer), weights.eps)
        x = np.hstack([x, np.ones((rows, 1))])  # [rows, d_model + 1]
        query, key = weights.heads(layer)  # [n_heads, d_model + 1, d_head] each
        offsets = head_offsets(x, query, key, parameters.offsets, causal=is_decoder)
        heads += [of_head(layer, offsets, head) for head in range(weights.n_heads)]
        residuals.append(offsets.residuals)
        if layer == 0 and query.shape[1] > query.shape[2] + 1:
            demonstration = null_rotation_demonstration(query[0], key[0], x, parameters.seed)
    return RelativeOffsets(
        family=family,
        is_causal=is_decoder,
        n_layers=weights.n_layers,
        n_heads=weights.n_heads,
        rows=rows,
        input=INPUT[weights.has_block_norm],
        offsets=list(range(-parameters.offsets, parameters.offsets + 1)),
        position_variance={str(count): float(shares[:count].sum()) for count in COMPONENTS},
        uniform=rounded(offsets.uniform),
        residuals=Residuals(
            scores=max(of_layer["scores"] for of_layer in residuals),
            trace=max(of_layer["trace"] for of_layer in residuals),
        ),
        null_rotation=demonstration and NullRotation(**demonstration._asdict()),
        heads=heads,
    )


def of_head(layer: int, offsets: HeadOffsets, head: int) -> Head:
    """What is kept of one head of a layer."""
    contribution = offsets.contribution[head]  # [r]
    order = np.argsort(-contribution, kind="stable")[:PAIRS]
    total = max(contribution.sum(), np.finfo(float).tiny)
    return Head(
        layer=layer,
        head=head,
        singular_values=rounded(offsets.singular[head]),
        score=rounded(offsets.score[head]),
        predicted_lag=int(offsets.score_peak[head]),
        profile=profile_of(offsets, head),
        pairs=[pair_of(offsets, head, int(pair)) for pair in order],
        pairs_share=float(contribution[order].sum() / total),
    )


def profile_of(offsets: HeadOffsets, head: int) -> Profile:
    """Attention of one head by offset."""
    mass, peak = offsets.mass[head], int(offsets.mass_peak[head])  # [2 offsets + 1], and one of it
    return Profile(
        mass=rounded(mass),
        preference=rounded(preference(mass, offsets.uniform)),
        peak=peak,
        peak_mass=float(mass[peak + len(mass) // 2]),
        mean_offset=number(float(mean_offset(mass))),
    )


def pair_of(offsets: HeadOffsets, head: int, pair: int) -> Pair:
    """One pair of signals of a head."""
    spectra = offsets.pairs
    return Pair(
        pair=pair,
        frequency=float(spectra.frequency[head, pair]),
        phase=float(spectra.phase[head, pair]),
        lag=float(spectra.lag[head, pair]),
        share=float(spectra.share[head, pair]),
        coherence=float(spectra.coherence[head, pair]),
        contribution=float(offsets.contribution[head, pair]),
    )


def number(value: float) -> float | None:
    """A number, None where it is not defined."""
    return None if np.isnan(value) else float(value)


def rounded(values: NDArray[np.float64]) -> list[float | None]:
    """Numbers with six digits after the point, None where a key is masked."""
    return [number(value) for value in np.round(values, 6)]


main = of_weights(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
