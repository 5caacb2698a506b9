"""How much the norms of a token's embeddings tell about its position (A3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.architectures.needs import NotKnown
from posenc.artifacts.command import read_section, run
from posenc.measurements.frame import Config, Output, lacking, not_run, seal
from posenc.measurements.norms.declaration import MEASUREMENT, Norms
from posenc.measurements.norms.result import (
    EmbeddingNorms,
    Explained,
    NormSpread,
    NormSpreads,
    Predicted,
)
from posenc.measurements.of_models import CellsJob, Model, TokensFolder, WeightsFolder, cells
from posenc.metrics.norms import norm_r2
from posenc.metrics.sampling import sampled
from posenc.models.discovered import tensors_of
from posenc.models.files import model_digests
from posenc.models.weights import Weights
from posenc.tokens.packing import positions_of
from posenc.tokens.tokenized import Tokens


def main(
    model: Model, config: Config, weights: WeightsFolder, tokens: TokensFolder, output: Output
) -> None:
    """Write OUTPUT/DATASET.json for each data set."""
    job = read_section(config, CellsJob[Norms])
    digests = model_digests(weights)
    reason, tables = lacking(MEASUREMENT, weights), None
    if reason is None:
        try:
            tables = tensors_of(Weights, weights, job.reading.family).embeddings()
        except NotKnown as error:
            reason = str(error)
    for path, of, text in cells(model, job.datasets, tokens, output):
        measured = (
            not_run(str(reason), job.parameters)
            if tables is None
            else measure(job.parameters, *tables, text)
        )
        seal(path, MEASUREMENT, of, measured, job.parameters, {"tokens": text.digest, **digests})


def measure(
    parameters: Norms,
    embeddings: NDArray[np.float32],  # [vocabulary, d_model]
    places: NDArray[np.float32],  # [positions, d_model]
    text: Tokens,
) -> EmbeddingNorms:
    """R2 of position from the norm of its vector, of the token's, and of their sum."""
    document = np.repeat(np.arange(len(text.ids)), text.lengths)  # [all tokens]
    position = positions_of(text.lengths)  # [all tokens]
    ids = np.concatenate([np.asarray(document_ids) for document_ids in text.ids])  # [all tokens]
    # Position 0 holds the same special token in every document: it would give itself away.
    kept = sampled(np.flatnonzero(position > 0), parameters.tokens, parameters.seed)  # [kept]
    document, position, ids = document[kept], position[kept], ids[kept]  # [kept] each
    words, vectors = embeddings[ids], places[position]  # [kept, d_model] each
    folds, seed = parameters.folds, parameters.seed
    used = int(text.lengths.max())
    table_norm = np.linalg.norm(places[:used], axis=1)  # [positions in use]
    word_norm = np.linalg.norm(words, axis=1)  # [kept]
    sum_norm = np.linalg.norm(words + vectors, axis=1)  # [kept]

    def of_tokens(norms: NDArray[np.float32]) -> Predicted:  # [kept]
        r2 = norm_r2(norms, position, groups=document, folds=folds, seed=seed)
        return Predicted.model_validate(r2)

    of_table = norm_r2(table_norm, np.arange(used), folds=folds, seed=seed)
    return EmbeddingNorms(
        documents=len(text.ids),
        tokens=len(kept),
        positions=used,
        r2=Explained(
            position_embeddings=Predicted.model_validate(of_table),
            token_embeddings=of_tokens(word_norm),
            sum=of_tokens(sum_norm),
        ),
        norm=NormSpreads(
            position_embeddings=_spread(table_norm), token_embeddings=_spread(word_norm)
        ),
        curve=table_norm.astype(float).round(6).tolist(),
    )


def _spread(norms: NDArray[np.float32]) -> NormSpread:
    return NormSpread(mean=float(norms.mean()), sd=float(norms.std()))


if __name__ == "__main__":
    run(main)
