"""Whether token and position can be read back from their sum, and from its layer norm (B2)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from posenc.artifacts.command import run
from posenc.config.base import Confidence, Draws, Section, Seed
from posenc.measurements.declaration import MODEL, WEIGHTS, Measurement
from posenc.measurements.of_models import Job, of_weights
from posenc.metrics.normalised_sums import NormalisedSums
from posenc.metrics.readback import Sums, compare_angles, noise_curve, principal_directions
from posenc.models.weights import Weights

RANDOM_SUBSPACES = 5
"""Pairs of random subspaces that principal angles are compared with."""


class Readback(Section):
    """Whether token and position can be read back from their sum (B2)."""

    tokens: Annotated[Draws, Field(ge=10)]
    """Random (token, position) pairs that are decoded, against all pairs there are."""
    noise: list[Annotated[float, Field(ge=0, le=1000)]]
    """Standard deviations of the added noise, in units of the root mean square of the vectors'
    entries."""
    variance: Annotated[float, Field(gt=0, lt=1)]
    """Principal angles are between the leading directions with this share of the variance."""
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "readback", Readback, of=MODEL, reads=(WEIGHTS,), catalogue=("B2",), uses=("scipy",)
)


def measure(job: Job[Readback], folder: Path) -> dict[str, Any]:
    """Decode random pairs, tokens and positions uniform, before and after normalisation."""
    parameters, weights = job.parameters, Weights(folder, job.reading.family)
    tokens, positions = weights.embeddings()  # [vocabulary, d_model], [positions, d_model]
    generator = np.random.default_rng(parameters.seed)
    token = generator.integers(len(tokens), size=parameters.tokens)  # [n]
    position = generator.integers(len(positions), size=parameters.tokens)  # [n]
    draws = generator.normal(size=(parameters.tokens, tokens.shape[1]))  # [n, d_model]
    # A constant changes no sum's nearest, but it does change the normalised ones.
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


main = of_weights(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
