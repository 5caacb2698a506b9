"""Position read from each layer's hidden states by linear and ReLU probes (B4).

Special tokens are left out. The one at position 0 is the same in every document and would give
itself away; so would the one at the end of an encoder's documents, whose position is their length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.artifacts.results import Interval
from posenc.artifacts.samples import KeptTokens, gather, layer_name
from posenc.measurements.frame import bootstrap, command, naming
from posenc.measurements.probes.declaration import MEASUREMENT, Probes
from posenc.measurements.probes.result import (
    Chance,
    Gains,
    Layer,
    OrderErrors,
    PositionErrors,
    PositionProbes,
)
from posenc.metrics.probes import order_errors, position_errors, token_pairs
from posenc.metrics.recovery import PairedMeans
from posenc.metrics.sampling import sampled

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
) -> PositionProbes:
    """Probe the condition's hidden states, layer after layer; only sampled rows are read."""
    kept = KeptTokens(condition, special_tokens=False)
    sample = Sample.draw(parameters, kept.document, kept.position)

    def read(state: int, tokens: NDArray[np.int64]) -> NDArray[np.floating]:
        return gather(condition, state, kept.shard[tokens], kept.row[tokens])

    with naming(f"{condition.directory}"):
        return probe(parameters, sample, condition.metadata["n_layers"] + 1, read)


def probe(parameters: Probes, sample: Sample, n_states: int, read: Read) -> PositionProbes:
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
    options = {
        "folds": parameters.folds,
        "hidden_units": parameters.hidden,
        "epochs": parameters.epochs,
        "seed": parameters.seed,
    }
    controlled = sorted({0, n_states - 1})
    position, document = sample.position, sample.document
    layers = []
    for state in tqdm(range(n_states), unit="layer", desc="probes", mininterval=5):
        is_controlled = state in controlled
        x, first, second = (
            read(state, tokens) for tokens in (sample.tokens, sample.first, sample.second)
        )  # [sampled, d_model], [pairs, d_model], [pairs, d_model]
        try:
            where = position_errors(
                x, position[sample.tokens], document[sample.tokens],
                relu_control=is_controlled, **options,
            )  # fmt: skip
            later = position[sample.first] > position[sample.second]  # [pairs]
            order = order_errors(
                first, second, later, document[sample.first],
                relu_control=is_controlled, **options,
            )  # fmt: skip
        except ValueError as error:
            raise ValueError(f"{layer_name(state, n_states)}: {error}") from error
        places, gains = estimates(parameters, where, document[sample.tokens])
        orders, _ = estimates(parameters, order, document[sample.first])
        # The folds are the same for all layers, and so is the best constant.
        chance = places.pop("constant")
        layers.append(
            Layer(
                layer=state,
                name=layer_name(state, n_states),
                position=PositionErrors.model_validate(
                    {"relu_control": None, **places, "gain": Gains.model_validate(gains)}
                ),
                order=OrderErrors.model_validate({"relu_control": None, **orders}),
            )
        )
    return PositionProbes(
        documents=len(np.unique(document[sample.tokens])),
        tokens=len(sample.tokens),
        pairs=len(sample.first),
        positions=int(position.max()) + 1,
        d_model=int(x.shape[1]),
        confidence=parameters.confidence,
        chance=Chance(position=chance, order=0.5),
        relu_control_layers=controlled,
        layers=layers,
    )


def estimates(
    parameters: Probes,
    errors: dict[str, NDArray[np.float64]],  # [n] each
    document: NDArray[np.int64],  # [n]
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """Mean errors, and how far below the best constant they are where there is one.

    The same documents are resampled for all, so what makes a document hard cancels in a gain. The
    probes are not fitted again: an interval is of these probes.
    """
    sums = np.stack(
        [np.bincount(document, values) for values in errors.values()], axis=1
    )  # [documents, probes]
    means = PairedMeans(sums, np.bincount(document), **bootstrap(parameters))
    columns = {name: column for column, name in enumerate(errors)}
    mean = {
        name: Interval.of(means.of(lambda error: error, column)) for name, column in columns.items()
    }
    if "constant" not in columns:
        return mean, {}
    constant = columns.pop("constant")
    gain = {
        name: Interval.of(means.of(np.subtract, constant, column))
        for name, column in columns.items()
    }
    return mean, gain


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
