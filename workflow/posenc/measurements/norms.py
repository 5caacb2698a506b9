"""How much of a token's position the norm of its embeddings tells (A3)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import Field

from posenc.artifacts.command import read_section, run
from posenc.config.base import Draws, Folds, Name, Section, Seed
from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement
from posenc.measurements.frame import seal
from posenc.metrics.norms import norm_r2
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.models.weights import Weights
from posenc.tokens.tokenized import Tokens


class Norms(Section):
    """How much of a token's position its embeddings' norms tell (A3)."""

    folds: Folds
    tokens: Annotated[Draws, Field(ge=100)]
    """Random tokens of the evaluation documents."""
    seed: Seed


MEASUREMENT = Measurement(Norms, of=CELL, reads=(TOKENS, WEIGHTS), catalogue=("A3",))


class Job(Section):
    """What the measurement of one model depends on, beside its weights and tokens."""

    parameters: Norms
    reading: Reading
    datasets: list[Name]


def main(
    model: Annotated[str, typer.Option(help="its name")],
    config: Annotated[Path, typer.Option(help="data/config/norms/MODEL.json")],
    weights: Annotated[Path, typer.Option(help="folder of the model")],
    tokens: Annotated[Path, typer.Option(help="folder of its tokens")],
    output: Annotated[Path, typer.Option(help="folder of its measurements")],
) -> None:
    """Write OUTPUT/DATASET.json for each data set."""
    job = read_section(config, Job)
    digests = model_digests(weights)
    embeddings, places = Weights(weights, job.reading.family).embeddings()
    for dataset in job.datasets:
        text = Tokens(tokens / f"{dataset}.parquet")
        seal(
            output / f"{dataset}.json",
            "norms",
            MEASUREMENT,
            {"model": model, "dataset": dataset},
            measure(job, embeddings, places, text),
            job.parameters,
            {"tokens": text.digest, **digests},
            ["numpy", "scikit-learn"],
        )


def measure(job: Job, embeddings: np.ndarray, places: np.ndarray, text: Tokens) -> dict[str, Any]:
    """R2 of position from the norm of its vector, of the token's, and of their sum."""
    parameters = job.parameters
    document = np.repeat(np.arange(len(text.ids)), text.lengths)  # [all tokens]
    position = np.concatenate([np.arange(length) for length in text.lengths])  # [all tokens]
    ids = np.concatenate([np.asarray(one) for one in text.ids])  # [all tokens]
    # Position 0 holds the same special token in every document: it would tell itself.
    kept = np.flatnonzero(position > 0)
    generator = np.random.default_rng(parameters.seed)
    if len(kept) > parameters.tokens:
        kept = np.sort(generator.choice(kept, parameters.tokens, replace=False))
    document, position, ids = document[kept], position[kept], ids[kept]  # [kept] each
    words, vectors = embeddings[ids], places[position]  # [kept, d_model] each
    options = {"folds": parameters.folds, "seed": parameters.seed}
    used = int(text.lengths.max())
    table = places[:used]  # [positions in use, d_model]
    table_norm = np.linalg.norm(table, axis=1)  # [positions in use]
    r2 = {
        "position_embeddings": norm_r2(table_norm, np.arange(used), **options),
        "token_embeddings": norm_r2(
            np.linalg.norm(words, axis=1), position, groups=document, **options
        ),
        "sum": norm_r2(
            np.linalg.norm(words + vectors, axis=1), position, groups=document, **options
        ),
    }
    return {
        "documents": len(text.ids),
        "tokens": len(kept),
        "positions": used,
        "r2": r2,
        "norm": {
            "position_embeddings": _spread(table_norm),
            "token_embeddings": _spread(np.linalg.norm(words, axis=1)),
        },
        "curve": table_norm.astype(float).round(6).tolist(),
    }


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "sd": float(values.std())}


if __name__ == "__main__":
    run(main)
