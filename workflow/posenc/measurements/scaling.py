"""Attention scores and their softmax over d_k, with and without the scaling (D4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from pydantic import Field, model_validator

from posenc.artifacts.command import read_section, run
from posenc.config.base import Draws, Length, Section, Seed, Width
from posenc.measurements.declaration import STUDY, Measurement
from posenc.measurements.frame import seal
from posenc.metrics.bootstrap import Estimate
from posenc.metrics.patterns import softmax, uniform_pattern
from posenc.metrics.scaling import (
    dot_products,
    mean_interval,
    median_interval,
    normal_vectors,
    summary,
)


class Scaling(Section):
    """Attention scores with and without the division by the square root of d_k (D4)."""

    dimensions: Annotated[list[Width], Field(min_length=1)]
    """Values of d_k."""
    keys: Annotated[Length, Field(ge=2)]
    """Keys that a query attends to."""
    queries: Annotated[Draws, Field(ge=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    seed: Seed

    @model_validator(mode="after")
    def _check_dimensions(self) -> Scaling:
        if self.dimensions != sorted(set(self.dimensions)):
            raise ValueError(f"dimensions {self.dimensions} must rise")
        return self


MEASUREMENT = Measurement(Scaling, of=STUDY, reads=(), catalogue=("D4",))


class Job(Section):
    """What the measurement depends on: no model and no data set."""

    parameters: Scaling


def main(
    config: Annotated[Path, typer.Option(help="data/config/scaling.json")],
    output: Annotated[Path, typer.Option(help="the measurement")],
) -> None:
    """Write OUTPUT."""
    job = read_section(config, Job)
    seal(
        output,
        "scaling",
        MEASUREMENT,
        {},
        measure(job.parameters),
        job.parameters,
        {},
        ["numpy", "scipy"],
    )


def measure(parameters: Scaling) -> dict[str, Any]:
    """Results by d_k, raw and scaled, from the same queries and keys.

    The largest probability, the entropy and both norms of a uniform pattern stand beside them: that
    is where softmax is as far from saturated as it can be.
    """
    uniform = summary(uniform_pattern(parameters.keys, causal=False)[:1])  # [1] each
    return {
        "queries": parameters.queries,
        "keys": parameters.keys,
        "confidence": parameters.confidence,
        "uniform": {name: float(value[0]) for name, value in uniform.items()},
        "dimensions": [of_dimension(parameters, d_k) for d_k in parameters.dimensions],
    }


def of_dimension(parameters: Scaling, d_k: int) -> dict[str, Any]:
    """Results of one d_k."""
    generator = np.random.default_rng([parameters.seed, d_k])
    blocks = normal_vectors(d_k, parameters.queries, parameters.keys, generator)
    scores = np.concatenate([dot_products(*block) for block in blocks])  # [queries, keys]
    return {
        "d_k": d_k,
        "raw": of_scores(parameters, scores),
        "scaled": of_scores(parameters, scores / np.sqrt(d_k)),
    }


def of_scores(
    parameters: Scaling,
    scores: NDArray[np.float64],  # [queries, keys]
) -> dict[str, Any]:
    """Means and medians over queries, with intervals.

    The variance is the mean square: the mean of a score is 0, whatever d_k.
    """
    pattern = softmax(scores.copy(), causal=False)  # [queries, keys]
    found = {"variance": np.square(scores).mean(axis=1), **summary(pattern)}  # [queries] each

    def estimates(interval: Callable[..., Estimate], *names: str) -> dict[str, Any]:
        return {name: interval(found[name], parameters.confidence).as_json() for name in names}

    return {
        **estimates(mean_interval, *found),
        # Few queries, of which two keys score nearly alike, make most of a mean.
        "median": estimates(median_interval, "largest", "frobenius", "spectral"),
    }


if __name__ == "__main__":
    run(main)
