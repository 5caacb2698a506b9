"""Position read from each layer's hidden states by linear and ReLU probes (B4).

Special tokens are left out. The one at position 0 is the same in every document and would give
itself away; so would the one at the end of an encoder's documents, whose position is their length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.measurements.frame import command, naming
from posenc.measurements.probes.declaration import MEASUREMENT, Probes
from posenc.metrics.bootstrap import percentile_interval, ratio_replicates
from posenc.metrics.probes import order_errors, position_errors, token_pairs
from posenc.metrics.sampling import sampled
from posenc.store.activations import ActivationStore
from posenc.store.samples import KeptTokens, gather, layer_name

LINEAR = {"position": "ridge", "order": "logistic"}
"""What the linear probe is called; the other one is the ReLU probe."""
Read = Callable[[int, NDArray[np.int64]], NDArray[np.floating]]
"""Hidden states [n, d_model] of an index of a hidden state and of n kept tokens."""


@dataclass(frozen=True)
class Sample:
    """Which tokens and pairs of tokens are probed: the same in all layers.

    Attributes
    ----------
    document, position
        int64 [kept]: document of each kept token, and its position there, in tokens.
    tokens
        int64 [sampled]: indices of kept tokens.
    first, second
        int64 [pairs]: indices of the kept tokens of each pair.
    """

    document: NDArray[np.int64]
    position: NDArray[np.int64]
    tokens: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    @classmethod
    def draw(
        cls, parameters: Probes, document: NDArray[np.int64], position: NDArray[np.int64]
    ) -> Sample:
        """Draw them from the kept tokens.

        Raises
        ------
        ArtifactError
            If there are fewer documents than folds, or none with two tokens.
        """
        token_seed, pair_seed = np.random.SeedSequence(parameters.seed).spawn(2)
        tokens = sampled(np.arange(len(document)), parameters.tokens, token_seed)  # [sampled]
        try:
            first, second = token_pairs(document, parameters.pairs, pair_seed)
        except ValueError as error:
            raise ArtifactError(f"measurements.probes: {error}; use longer documents") from None
        fewest = min(len(np.unique(document[chosen])) for chosen in (tokens, first))
        if fewest < parameters.folds:
            raise ArtifactError(
                f"measurements.probes: {fewest} documents for {parameters.folds} folds: raise "
                f"evaluation.documents or lower folds in params.yaml"
            )
        return cls(document, position, tokens, first, second)


def measure(
    parameters: Probes, intact: ActivationStore, condition: ActivationStore
) -> dict[str, Any]:
    """Probe the condition's hidden states, layer after layer; only sampled rows are read."""
    kept = KeptTokens(condition, special_tokens=False)
    sample = Sample.draw(parameters, kept.document, kept.position)

    def read(state: int, tokens: NDArray[np.int64]) -> NDArray[np.floating]:
        return gather(condition, state, kept.shard[tokens], kept.row[tokens])

    with naming(f"{condition.directory}"):
        return probe(parameters, sample, condition.metadata["n_layers"] + 1, read)


def probe(parameters: Probes, sample: Sample, n_states: int, read: Read) -> dict[str, Any]:
    """Errors of all probes of all hidden states, with their intervals over documents.

    The ReLU probe is fitted to shuffled labels at the first and the last hidden state, the linear
    one, which is fast, at each.

    Parameters
    ----------
    parameters, sample
        Parameters, tokens and pairs.
    n_states
        Number of hidden states.
    read
        What reads them.

    Raises
    ------
    ValueError
        As :func:`posenc.metrics.probes.position_errors`; it names the hidden state.
    """
    options: dict[str, Any] = {
        "folds": parameters.folds,
        "hidden_units": parameters.hidden,
        "epochs": parameters.epochs,
        "seed": parameters.seed,
    }
    controlled = sorted({0, n_states - 1})
    position, document = sample.position, sample.document
    layers, chance = [], None
    for state in tqdm(range(n_states), unit="layer", desc="probes", mininterval=5):
        extra = {**options, "relu_control": state in controlled}
        x, first, second = (
            read(state, tokens) for tokens in (sample.tokens, sample.first, sample.second)
        )  # [sampled, d_model], [pairs, d_model], [pairs, d_model]
        try:
            where = position_errors(x, position[sample.tokens], document[sample.tokens], **extra)
            later = position[sample.first] > position[sample.second]  # [pairs]
            order = order_errors(first, second, later, document[sample.first], **extra)
        except ValueError as error:
            raise ValueError(f"{layer_name(state, n_states)}: {error}") from error
        places = estimates(parameters, where, document[sample.tokens])
        # The folds are the same for all layers, and so is the best constant.
        chance = places.pop("constant")
        layers.append(
            {
                "layer": state,
                "name": layer_name(state, n_states),
                "position": named(places),
                "order": named(estimates(parameters, order, document[sample.first])),
            }
        )
    return {
        "documents": len(np.unique(document[sample.tokens])),
        "tokens": len(sample.tokens),
        "pairs": len(sample.first),
        "positions": int(position.max()) + 1,
        "d_model": int(x.shape[1]),
        "confidence": parameters.confidence,
        "chance": {"position": chance, "order": 0.5},
        "relu_control_layers": controlled,
        "layers": layers,
    }


def estimates(
    parameters: Probes,
    errors: dict[str, NDArray[np.float64]],  # [n] each
    document: NDArray[np.int64],  # [n]
) -> dict[str, Any]:
    """Mean errors with their intervals, and how far below the best constant they are.

    The same documents are resampled for all, so what makes a document hard cancels in a gain. The
    probes are not fitted again: an interval is of these probes.
    """
    counts = np.bincount(document)  # [documents]
    sums = np.stack(
        [np.bincount(document, values) for values in errors.values()], axis=1
    )  # [documents, probes]
    replicates = ratio_replicates(
        sums, counts, parameters.bootstrap_samples, parameters.seed
    )  # [samples, probes]
    values = sums.sum(axis=0) / counts.sum()  # [probes]
    columns = dict(zip(errors, zip(values, replicates.T, strict=True), strict=True))
    results: dict[str, Any] = {
        name: percentile_interval(*column, parameters.confidence).as_json()
        for name, column in columns.items()
    }
    if "constant" in columns:
        results["gain"] = {
            name: percentile_interval(
                columns["constant"][0] - value,
                columns["constant"][1] - drawn,
                parameters.confidence,
            ).as_json()
            for name, (value, drawn) in columns.items()
            if name != "constant"
        }
    return results


def named(results: dict[str, Any]) -> dict[str, Any]:
    """The results of a layer, with None for the control that was not measured."""
    return {**results, "relu_control": results.get("relu_control")}


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
