"""Whether token and position can be read back from their sum, and from its layer norm (B2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from posenc.artifacts.command import run
from posenc.measurements.of_models import Job, of_weights
from posenc.measurements.readback.declaration import MEASUREMENT, Readback
from posenc.metrics.equal_sums import count_mistaken, failure_bound
from posenc.metrics.normalised_sums import NormalisedSums
from posenc.metrics.readback import Sums, compare_angles, noise_curve, principal_directions
from posenc.models.discovered import tensors_of
from posenc.models.weights import Weights

RANDOM_SUBSPACES = 5
"""Pairs of random subspaces that principal angles are compared with."""


def measure(job: Job[Readback], folder: Path) -> dict[str, Any]:
    """Decode random pairs, tokens and positions uniform, before and after normalisation."""
    parameters, weights = job.parameters, tensors_of(Weights, folder, job.reading.family)
    tokens, positions = weights.embeddings()  # [vocabulary, d_model], [positions, d_model]
    generator = np.random.default_rng(parameters.seed)
    token = generator.integers(len(tokens), size=parameters.tokens)  # [n]
    position = generator.integers(len(positions), size=parameters.tokens)  # [n]
    draws = generator.normal(size=(parameters.tokens, tokens.shape[1]))  # [n, d_model]
    # A constant changes the nearest pair of no sum, but it does change normalised sums.
    places = positions + np.asarray(weights.token_type(), np.float64)  # [positions, d_model]
    searched = {
        "before": Sums(tokens, places),
        "after": NormalisedSums(tokens, places, weights.eps),
    }
    curves = {
        stage: noise_curve(sums, token, position, parameters.noise, draws, parameters.confidence)
        for stage, sums in searched.items()
    }
    of_tokens, token_rank = principal_directions(tokens, parameters.variance)
    of_positions, position_rank = principal_directions(positions, parameters.variance)
    full = tokens.shape[1] in (token_rank, position_rank)
    return {
        "pairs": parameters.tokens,
        "pairs_searched": len(tokens) * len(positions),
        # Of all pairs, without noise and before normalisation.
        "mistaken": count_mistaken(tokens, positions),
        "bounds": bounds(parameters, searched, generator),
        "confidence": parameters.confidence,
        "d_model": tokens.shape[1],
        "vocabulary_size": len(tokens),
        "positions": len(positions),
        "eps": weights.eps,
        **curves,
        "subspaces": {
            "variance": parameters.variance,
            "tokens": {"rank": token_rank, "directions": of_tokens.shape[1]},
            "positions": {"rank": position_rank, "directions": of_positions.shape[1]},
            # Any subspace lies within all of R^d.
            "full_span_angle": 0.0 if full else None,
            "draws": RANDOM_SUBSPACES,
            **compare_angles(of_tokens, of_positions, RANDOM_SUBSPACES, parameters.seed),
        },
    }


def bounds(
    parameters: Readback, searched: dict[str, Sums], generator: np.random.Generator
) -> dict[str, Any]:
    """How many of other random pairs fail at the middle level of noise, and what that excludes.

    ``upper`` is the exact upper bound, at ``confidence``, of the share of all pairs that fail:
    pairs are drawn independently, so that their failures are binomial.
    """
    noise = parameters.noise[len(parameters.noise) // 2]
    results: dict[str, Any] = {"noise": noise, "pairs": parameters.bounded}
    count = parameters.bounded
    for stage, sums in searched.items():
        token = generator.integers(len(sums.tokens), size=count)  # [n]
        position = generator.integers(len(sums.positions), size=count)  # [n]
        clean = sums.vectors(token, position)  # [n, d_model]
        unit = np.sqrt(np.mean(np.square(clean)))
        read = sums.decode(clean + noise * unit * generator.normal(size=clean.shape))
        failures = int(np.count_nonzero((read.token != token) | (read.position != position)))
        upper = failure_bound(failures, count, parameters.confidence)
        results[stage] = {"failures": failures, "upper": upper}
    return results


main = of_weights(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
