"""What layer normalisation does to the position that was added to its input (C5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError
from posenc.config.base import Confidence, Draws, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, CELL, TOKENS, WEIGHTS, Measurement
from posenc.measurements.frame import Config, Output, Stores, digest_of, seal
from posenc.measurements.of_models import CellsJob, Model, TokensFolder, WeightsFolder, cells
from posenc.metrics.normalisation import of_normalisation, parts, share_between_positions
from posenc.metrics.sampling import shuffled_within
from posenc.models.files import model_digests
from posenc.models.weights import EMBEDDING_NORM, Weights
from posenc.store.activations import ActivationStore, shard_name
from posenc.store.samples import gather, layer_name
from posenc.tokens.packing import positions_of
from posenc.tokens.tokenized import Tokens


class LayerNorm(Section):
    """What layer normalisation does to the position that was added (C5)."""

    tokens: Annotated[Draws, Field(ge=100)]
    """Tokens of random evaluation documents, which are taken whole: they are sequences here."""
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "layer_norm", LayerNorm, of=CELL, reads=(ACTIVATIONS, TOKENS, WEIGHTS), catalogue=("C5",),
    uses=("scipy",),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sample:
    """Whole documents of a run, [tokens] each: ids, positions, documents and where they lie."""

    ids: NDArray[np.int64]
    position: NDArray[np.int64]
    document: NDArray[np.int64]
    shard: NDArray[np.int64]
    row: NDArray[np.int64]

    def kept(self, keep: NDArray[np.bool_]) -> Sample:
        """Those of the tokens that are kept."""
        return Sample(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))


def main(
    model: Model, config: Config, weights: WeightsFolder, tokens: TokensFolder,
    activations: Stores, output: Output,
) -> None:  # fmt: skip
    """Write OUTPUT/DATASET.json for each data set."""
    job = read_section(config, CellsJob[LayerNorm])
    digests = model_digests(weights)
    for path, of, text in cells(model, job.datasets, tokens, output):
        folder = activations / of["dataset"] / "intact"
        opened = ActivationStore(folder, verify=())
        # Losses are not read, so they are not verified.
        store = ActivationStore(folder, {shard_name(n) for n in range(opened.n_shards)})
        measured = {**measure(job, weights, text, store), "precision": store.metadata["precision"]}
        inputs = {"tokens": text.digest, "intact": digest_of(folder), **digests}
        seal(path, MEASUREMENT, of, measured, job.parameters, inputs)


def measure(
    job: CellsJob[LayerNorm], folder: Path, text: Tokens, store: ActivationStore
) -> dict[str, Any]:
    """The normalisations whose input is known, and the share of position by layer.

    The residual stream of a decoder that normalises before each block carries P unchanged to all
    of them. It is P that is split off there; what blocks have added, on position too, is of ∗.
    """
    parameters, weights = job.parameters, Weights(folder, job.reading.family)
    made_of = {"tokens": text.digest, **model_digests(folder)}
    if store.metadata["inputs"] != made_of:
        raise ArtifactError(f"{store.directory} is of other tokens or weights; rerun to make it")
    sample = draw(text, store, parameters.tokens, parameters.seed)
    words, places = weights.embeddings()
    if sample.position.max() >= len(places):
        raise ArtifactError(
            f"{text.path} has documents of more than the {len(places)} positions of {folder}; "
            f"lower max_tokens in params.yaml"
        )

    def measured(
        name: str, layer: int | None, x: NDArray[np.float64], gain: NDArray, bias: NDArray
    ) -> dict[str, Any]:
        found = of_normalisation(
            x, places, sample.position, sample.document,
            gain=gain, bias=bias, eps=weights.eps, confidence=parameters.confidence,
        )  # fmt: skip
        return {"name": name, "layer": layer, **found}

    x = words[sample.ids].astype(np.float64) + weights.token_type() + places[sample.position]
    embedding = x  # [tokens, d_model]
    if job.reading.is_decoder:
        norms = [
            measured(
                f"block {layer}, before attention", layer,
                gather(store, layer, sample.shard, sample.row).astype(np.float64),
                *weights.norm(f"h.{layer}.ln_1"),
            )
            for layer in range(store.metadata["n_layers"])
        ]  # fmt: skip
        reason = "inputs of the second normalisation of a block, and of the last, are not cached"
    else:
        norm = weights.norm(EMBEDDING_NORM)
        norms = [measured("embedding", None, x, *norm)]
        embedding = parts(x, *norm, weights.eps).output  # [tokens, d_model]
        reason = "inputs of the normalisations after the embedding's are not cached"
    stored = gather(store, 0, sample.shard, sample.row)
    return {
        "documents": len(np.unique(sample.document)),
        "tokens": int(np.count_nonzero(sample.position > 0)),
        "confidence": parameters.confidence,
        "placement": "before" if job.reading.is_decoder else "after",
        "eps": weights.eps,
        # What was stored should differ by the rounding of its type alone.
        "embedding_error": float(np.abs(embedding - stored).max() / np.abs(embedding).max()),
        "norms": norms,
        "not_run": {"status": "not run", "reason": reason},
        "states": [state_shares(store, sample, state, parameters) for state in
                   range(store.metadata["n_layers"] + 1)],
    }  # fmt: skip


def draw(text: Tokens, store: ActivationStore, tokens: int, seed: int) -> Sample:
    """Random documents, as many as have that many tokens together, or all.

    Raises
    ------
    ArtifactError
        If fewer than three of them have two tokens.
    """
    lengths = text.lengths  # [documents]
    order = np.random.default_rng(seed).permutation(len(lengths))
    enough = np.searchsorted(np.cumsum(lengths[order]), tokens) + 1
    chosen = np.sort(order[: max(3, int(enough))])  # [sampled documents]
    # The jackknife leaves one out, and two have to share a position.
    if np.count_nonzero(lengths[chosen] > 1) < 3:
        raise ArtifactError(
            f"{text.path} has fewer than three documents of two tokens: raise "
            f"evaluation.documents or measurements.layer_norm.tokens in params.yaml"
        )
    size = lengths[chosen]
    position = positions_of(size)  # [tokens]
    start = store.documents["start"].to_numpy()[chosen]
    shard = store.documents["shard"].to_numpy()[chosen]
    return Sample(
        np.concatenate([np.asarray(text.ids[one]) for one in chosen]),
        position,
        np.repeat(chosen, size),
        np.repeat(shard, size),
        np.repeat(start, size) + position,
    )


def state_shares(
    store: ActivationStore, sample: Sample, state: int, parameters: LayerNorm
) -> dict[str, Any]:
    """Share of a layer's variance between positions, and of shuffled ones as a control."""
    later = sample.kept(sample.position > 0)
    states = gather(store, state, later.shard, later.row)  # [tokens, d_model]
    # Within documents, so that what documents differ in stays as it is.
    shuffled = shuffled_within(later.position, later.document, [parameters.seed, 1])
    found = {
        name: share_between_positions(
            states, position, later.document, parameters.confidence
        ).as_json()
        for name, position in (("between_positions", later.position), ("shuffled", shuffled))
    }
    return {"state": state, "name": layer_name(state, store.metadata["n_layers"] + 1), **found}


if __name__ == "__main__":
    run(main)
