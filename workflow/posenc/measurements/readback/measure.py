"""Whether token and position can be read back from their sum, and from its layer norm (B2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval
from posenc.measurements.of_models import Job, of_weights
from posenc.measurements.readback import result
from posenc.measurements.readback.declaration import MEASUREMENT, Readback
from posenc.metrics.equal_sums import count_mistaken, failure_bound
from posenc.metrics.normalised_sums import NormalisedSums
from posenc.metrics.readback import Level, Sums, noise_curve
from posenc.metrics.subspaces import compare_angles, principal_directions
from posenc.models.discovered import tensors_of
from posenc.models.weights import Weights

RANDOM_SUBSPACES = 5
"""Pairs of random subspaces that principal angles are compared with."""


def measure(job: Job[Readback], folder: Path) -> result.PairsReadBack:
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
    before, after = (
        [
            level_of(level)
            for level in noise_curve(
                sums, token, position, parameters.noise, draws, parameters.confidence
            )
        ]
        for sums in (searched["before"], searched["after"])
    )
    return result.PairsReadBack(
        pairs=parameters.tokens,
        pairs_searched=len(tokens) * len(positions),
        mistaken=count_mistaken(tokens, positions),
        bounds=bounds(parameters, searched, generator),
        confidence=parameters.confidence,
        d_model=tokens.shape[1],
        vocabulary_size=len(tokens),
        positions=len(positions),
        eps=weights.eps,
        before=before,
        after=after,
        subspaces=subspaces(parameters, tokens, positions),
    )


def level_of(level: Level) -> result.Level:
    """What a file holds of a level of noise."""
    token, position, both = (Interval.of(share) for share in level.joint)
    alone, mean = (
        result.Shares(token=Interval.of(shares.token), position=Interval.of(shares.position))
        for shares in (level.alone, level.mean)
    )
    return result.Level(
        noise=level.noise,
        joint=result.JointShares(token=token, position=position, both=both),
        alone=alone,
        mean=mean,
        margin=result.Margin(
            least=float(level.margin.min()), median=float(np.median(level.margin))
        ),
    )


def subspaces(
    parameters: Readback,
    tokens: NDArray[np.floating],  # [vocabulary, d_model]
    positions: NDArray[np.floating],  # [positions, d_model]
) -> result.Subspaces:
    """Angles between the leading directions of both tables."""
    of_tokens, token_rank = principal_directions(tokens, parameters.variance)
    of_positions, position_rank = principal_directions(positions, parameters.variance)
    compared = compare_angles(of_tokens, of_positions, RANDOM_SUBSPACES, parameters.seed)
    full = tokens.shape[1] in (token_rank, position_rank)
    return result.Subspaces(
        variance=parameters.variance,
        tokens=result.Table(rank=token_rank, directions=of_tokens.shape[1]),
        positions=result.Table(rank=position_rank, directions=of_positions.shape[1]),
        full_span_angle=0.0 if full else None,
        draws=RANDOM_SUBSPACES,
        angles=compared.angles.tolist(),
        random=compared.random.tolist(),
        random_sd=compared.random_sd.tolist(),
    )


def bounds(
    parameters: Readback, searched: dict[str, Sums], generator: np.random.Generator
) -> result.Bounds:
    """How many of other random pairs fail at the middle level of noise, and what that excludes.

    The upper bound of the share of all pairs that fail is exact: pairs are drawn independently, so
    that their failures are binomial.
    """
    noise = parameters.noise[len(parameters.noise) // 2]
    failed: dict[str, result.Failures] = {}
    count = parameters.bounded
    for stage, sums in searched.items():
        token = generator.integers(len(sums.tokens), size=count)  # [n]
        position = generator.integers(len(sums.positions), size=count)  # [n]
        clean = sums.vectors(token, position)  # [n, d_model]
        unit = np.sqrt(np.mean(np.square(clean)))
        read = sums.decode(clean + noise * unit * generator.normal(size=clean.shape))
        failures = int(np.count_nonzero((read.token != token) | (read.position != position)))
        upper = failure_bound(failures, count, parameters.confidence)
        failed[stage] = result.Failures(failures=failures, upper=upper)
    return result.Bounds(noise=noise, pairs=count, before=failed["before"], after=failed["after"])


main = of_weights(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
