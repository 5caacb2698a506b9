"""Which two rows of a model's token embedding a mixture consists of, by dimensions (B5)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.measurements.embedding_sums.declaration import MEASUREMENT, EmbeddingSums
from posenc.measurements.embedding_sums.result import (
    ExpectedMixture,
    ExpectedWidth,
    Needed,
    Recalls,
    Width,
)
from posenc.measurements.of_models import Job, of_weights
from posenc.metrics.embedding_sums import (
    expected_recall,
    needed_dimensions,
    recall_by_dimensions,
)
from posenc.metrics.superposition import chance, distinct_rows
from posenc.models.discovered import tensors_of
from posenc.models.weights import Weights

DRAWS = 4096
"""Pairs of random rows that the expected recall is a mean over."""


def measure(job: Job[EmbeddingSums], folder: Path) -> Recalls:
    """Measure a model's token embedding."""
    weights = tensors_of(Weights, folder, job.reading.family)
    tokens, _ = weights.embeddings()  # [vocabulary, d_model]
    return recalls(job.parameters, tokens)


def recalls(parameters: EmbeddingSums, tokens: NDArray[np.float32]) -> Recalls:
    """Recall of both rows in the table, in random projections of it, and in Gaussian tables.

    Projections to fewer dimensions are the first columns of one product with a Gaussian matrix,
    those of the Gaussian table its first columns; the same pairs are mixed in all.

    Parameters
    ----------
    parameters
        Dimensions, pairs, mixing weights.
    tokens
        [vocabulary, d_model].

    Raises
    ------
    ArtifactError
        If fewer than three rows are not zero.
    """
    used = np.any(tokens != 0, axis=1)  # [vocabulary]: a row of zeros has no direction
    table = tokens[used]  # [rows, d_model]
    rows, d_model = table.shape
    if rows < 3:
        raise ArtifactError(f"the token embedding has {rows} rows that are not zero: too few")
    seed, narrower = parameters.seed, [d for d in parameters.dimensions if d < d_model]
    pairs = distinct_rows(rows, parameters.pairs, np.random.default_rng([seed, 0]))

    def recall(vectors: NDArray[np.float32], dimensions: list[int]) -> list[Width]:
        by_dimensions = recall_by_dimensions(
            vectors, *pairs, dimensions, parameters.weights, parameters.confidence
        )
        return [Width.model_validate(each, from_attributes=True) for each in by_dimensions]

    own = recall(table, [d_model])
    # A direction that all rows share does not tell them apart.
    centred = recall(table - table.mean(axis=0, dtype=np.float64).astype(np.float32), [d_model])
    projected: list[Width] = []
    if narrower:
        directions = _normal([seed, 1], (d_model, narrower[-1]))  # [d_model, widest]
        projected = recall(table @ directions, narrower)
    random = _normal([seed, 2], (rows, d_model))  # [rows, d_model]
    widths = [*narrower, d_model]
    generator = np.random.default_rng([seed, 3])
    return Recalls(
        pairs=parameters.pairs,
        rows=rows,
        zero_rows=len(tokens) - rows,
        d_model=d_model,
        confidence=parameters.confidence,
        chance=chance(rows)["both"],
        model=[*projected, *own],
        centred=centred,
        gaussian=recall(random, widths),
        expected=[
            ExpectedWidth(
                dimensions=width,
                weights=[
                    ExpectedMixture(
                        weight=w, both=expected_recall(rows, width, w, DRAWS, generator)
                    )
                    for w in parameters.weights
                ],
            )
            for width in widths
        ],
        needed_dimensions=[
            Needed(weight=w, dimensions=needed_dimensions(rows, w)) for w in parameters.weights
        ],
    )


def _normal(seed: list[int], shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


main = of_weights(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
