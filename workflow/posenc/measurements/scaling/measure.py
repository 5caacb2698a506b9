"""Attention scores and their softmax over d_k, with and without the scaling (D4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.measurements.frame import of_study
from posenc.measurements.scaling.declaration import MEASUREMENT, Scaling
from posenc.measurements.scaling.result import ByDimension, Dimension, Scores, Uniform
from posenc.metrics.patterns import uniform_pattern
from posenc.metrics.scaling import dot_products, normal_vectors, of_scores, summary


def measure(parameters: Scaling) -> ByDimension:
    """Results by d_k, raw and scaled, from the same queries and keys.

    The largest probability, the entropy and both norms of a uniform pattern stand beside them: that
    is where softmax is as far from saturated as it can be.
    """
    uniform = summary(uniform_pattern(parameters.keys, causal=False)[0])
    return ByDimension(
        queries=parameters.queries,
        keys=parameters.keys,
        confidence=parameters.confidence,
        uniform=Uniform.model_validate(uniform, from_attributes=True),
        dimensions=[of_dimension(parameters, d_k) for d_k in parameters.dimensions],
    )


def of_dimension(parameters: Scaling, d_k: int) -> Dimension:
    """Results of one d_k."""
    generator = np.random.default_rng([parameters.seed, d_k])
    blocks = normal_vectors(d_k, parameters.queries, parameters.keys, generator)
    scores = np.concatenate([dot_products(*block) for block in blocks])  # [queries, keys]

    def estimates(scores: NDArray[np.float64]) -> Scores:
        means = of_scores(scores, parameters.confidence)
        return Scores.model_validate(means, from_attributes=True)

    return Dimension(d_k=d_k, raw=estimates(scores), scaled=estimates(scores / np.sqrt(d_k)))


main = of_study(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
