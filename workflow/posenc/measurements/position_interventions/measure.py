"""Where is position lost, and which layers need it? Its mean part removed and injected (C5).

A share of the variance says whether position is in hidden states, not whether it is used. Here the
mean effect D of the position embeddings on the input of a block, by position
(:mod:`posenc.metrics.position_parts`), is intervened on, one block at a time:

- ``removed``: the intact model, with D taken from the input of the block, and so from all that
  follows. It costs little where position has been used, or was lost before.
- ``injected``: the model whose table is zero, with D added there. It brings the loss back where
  position may come as late as this.
- ``withheld``: the intact model, with D taken from the input of the block, and the mean of what the
  block returns at each position put back. The block alone does without.

The last states themselves have a mean part, too. Taking it from them, or adding it, is where the
other two end: what no layer has used is only carried there.

At the first block of a GPT-2, D is the table itself: removed gives the model without it, injected
the intact one. D is estimated on as many other documents as are measured. What a block makes of
position and token together is in no mean, so it is not removed.

Controls: D of other positions, by one permutation, which has the same vectors and the same mean
(if the cost came from the disturbance, or the gain from vectors of this kind, it would do as
well); and the mean of D over positions, an offset that says nothing of position.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.positions import ROTATION
from posenc.measurements.filtered_loss.declaration import FEWEST
from posenc.measurements.filtered_loss.measure import BATCH_TOKENS, RESULTS, effects
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.of_models import halves, of_tokens
from posenc.measurements.position_interventions import result
from posenc.measurements.position_interventions.declaration import (
    MEASUREMENT,
    SHARED,
    PositionInterventions,
)
from posenc.metrics.position_parts import PARTS, Sizes, means_by_position, parts_of, sizes
from posenc.metrics.recovery import PairedMeans, is_lost
from posenc.tokens.packing import packs_of, positions_of
from posenc.tokens.tokenized import Tokens

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
WAYS = ("removed", "injected", "withheld")
INTACT, WITHOUT = 0, 1
"""Columns of the two models, beside those of interventions."""


class Pack(NamedTuple):
    """Some documents in one row, and what each block is given; the last states come last.

    Attributes
    ----------
    documents
        Their numbers.
    ids
        Their tokens.
    position
        int64 [tokens].
    intact, without
        n_layers + 1 tensors [tokens, d_model]: of the intact model, and without its table.
    """

    documents: list[int]
    ids: list[list[int]]
    position: NDArray[np.int64]
    intact: list[Tensor]
    without: list[Tensor]


class Vectors(NamedTuple):
    """What is taken or added at the input of a block, and put back behind it: by position.

    Attributes
    ----------
    taken, returned
        float32 [positions, d_model]; nothing follows the last states: ``returned`` is None there.
    """

    taken: Tensor
    returned: Tensor | None


def measure(
    parameters: PositionInterventions, network: Any, text: Tokens
) -> result.PositionInterventions | NotMeasured:
    """Estimate the mean part of position on drawn documents, and intervene on as many others."""
    if network is None:
        return not_run("positions turn queries and keys: no table adds to states", parameters)
    from posenc.capture.parts import architecture, is_decoder

    calibration, documents = drawn(parameters, text)
    learned = list(packs(network, calibration))
    vectors, measures = learn(network, learned, parameters.seed)
    causal, n_layers = is_decoder(network), architecture(network).n_layers
    sums = np.zeros((len(documents), 2 + len(interventions(n_layers)), len(RESULTS)))
    total = sum(map(len, documents)) * sums.shape[1]
    with tqdm(total=total, unit="token", desc="interventions", mininterval=5) as progress:
        for pack in packs(network, documents):
            for column, last in enumerate(runs(network, pack, vectors)):
                document_sums = effects(network, pack.ids, last, pack.intact[-1], causal)
                sums[pack.documents, column] = document_sums
                progress.update(len(last))
    lengths = np.array([len(ids) for ids in documents])  # [documents]
    positions = len(vectors[0][PARTS[0]].taken)
    return results(parameters, sums, lengths, positions, len(calibration), measures, causal)


def interventions(n_layers: int) -> list[tuple[int, str, str]]:
    """Layer, way and part of all, in order; the last states count as a layer after the others."""
    combinations = itertools.product(range(n_layers + 1), WAYS, PARTS)
    return [
        intervention for intervention in combinations if intervention[:2] != (n_layers, "withheld")
    ]


def drawn(
    parameters: PositionInterventions, text: Tokens
) -> tuple[list[list[int]], list[list[int]]]:
    """Documents for the means, and as many others that are measured.

    All are cut to the positions that ``SHARED`` of the first reach.

    Raises
    ------
    ArtifactError
        If there are too few.
    """
    calibration, documents = halves(
        text, parameters.documents, "measurements.position_interventions.documents",
        tokens=parameters.tokens, shortest=FEWEST, seed=parameters.seed,
    )  # fmt: skip
    positions = sorted(map(len, calibration))[-SHARED]
    return [ids[:positions] for ids in calibration], [ids[:positions] for ids in documents]


def packs(network: Any, documents: list[list[int]]) -> Iterator[Pack]:
    """Run documents through the intact model, and without its table."""
    from posenc.capture.capture import packed_states
    from posenc.capture.interventions import applied
    from posenc.conditions.section import Condition

    lengths = np.array([len(ids) for ids in documents])  # [documents]
    # Neighbours of equal length share calls.
    order = np.argsort(lengths, kind="stable").tolist()
    for pack in packs_of(lengths, order, BATCH_TOKENS):
        ids = [documents[index] for index in pack.documents]
        intact = [state[0] for state in packed_states(network, ids)]
        with applied(network, Condition(position="zero")):
            without = [state[0] for state in packed_states(network, ids)]
        position = positions_of(lengths[pack.documents])  # [tokens]
        yield Pack(pack.documents, ids, position, intact, without)


def learn(
    network: Any, learned: list[Pack], seed: int
) -> tuple[list[dict[str, Vectors]], list[Sizes]]:
    """Of each layer, vectors by ``PARTS``, and :func:`posenc.metrics.position_parts.sizes`."""
    import torch

    position = np.concatenate([pack.position for pack in learned])  # [tokens]
    order = np.random.default_rng(seed).permutation(position.max() + 1)  # [positions]
    vectors, measures, effects = [], [], []
    n_layers = len(learned[0].intact) - 1
    for layer in range(n_layers + 1):
        states = np.concatenate([pack.intact[layer].numpy() for pack in learned])
        without = np.concatenate([pack.without[layer].numpy() for pack in learned])
        effects.append(means_by_position(states - without, position))  # [positions, d_model]
        measures.append(sizes(effects[-1], effects[0], states))
        of_layer = {}
        for name, part in parts_of(effects[-1], order).items():
            taken = torch.from_numpy(part.astype(np.float32))  # [positions, d_model]
            returned = None if layer == n_layers else put_back(network, learned, layer, taken)
            of_layer[name] = Vectors(taken, returned)
        vectors.append(of_layer)
    return vectors, measures


def put_back(network: Any, learned: list[Pack], layer: int, taken: Tensor) -> Tensor:
    """What a block's output lacks, by position, when its input does: [positions, d_model]."""
    import torch

    from posenc.capture.block_inputs import block_output

    changes = []
    for pack in learned:
        states = (pack.intact[layer], pack.intact[layer] - taken[pack.position])
        own, other = (block_output(network, pack.ids, layer, state) for state in states)
        changes.append((own - other).numpy())  # [tokens, d_model]
    position = np.concatenate([pack.position for pack in learned])  # [tokens]
    means = means_by_position(np.concatenate(changes), position)  # [positions, d_model]
    return torch.from_numpy(means.astype(np.float32))


def runs(network: Any, pack: Pack, vectors: list[dict[str, Vectors]]) -> Iterator[Tensor]:
    """Last hidden states, [tokens, d_model]: intact, without the table, of each intervention."""
    from posenc.capture.block_inputs import last_given

    n_layers = len(vectors) - 1
    yield pack.intact[-1]
    yield pack.without[-1]
    for layer, way, name in interventions(n_layers):
        part = vectors[layer][name]
        taken = part.taken[pack.position]  # [tokens, d_model]
        is_injected = way == "injected"
        state = pack.without[layer] + taken if is_injected else pack.intact[layer] - taken
        if layer == n_layers:
            yield state
            continue
        returned = part.returned if way == "withheld" else None
        added = None if returned is None else returned[pack.position]  # [tokens, d_model]
        yield last_given(network, pack.ids, layer, state, added)


def results(
    parameters: PositionInterventions,
    sums: Floats,  # [documents, 2 + interventions, results]
    lengths: NDArray[np.int64],  # [documents]
    positions: int,
    calibration: int,
    measures: list[Sizes],
    causal: bool,
) -> result.PositionInterventions:
    """What each intervention costs, beside its controls and beyond them, by layer."""
    # Of a document's tokens all but the first are predicted.
    nll = PairedMeans(sums[..., 0], lengths - 1, **bootstrap(parameters))
    distance = PairedMeans(sums[..., 1], lengths, **bootstrap(parameters))
    judged = nll if causal else distance
    has_lost = is_lost(judged, INTACT, WITHOUT)
    n_layers = len(measures) - 1
    columns = {
        intervention: 2 + number for number, intervention in enumerate(interventions(n_layers))
    }

    def difference(column: int, other: int = INTACT) -> result.Difference:
        of_lost = judged.of(share, column, other, INTACT, WITHOUT) if has_lost else None
        return result.Difference(
            delta_nll=Interval.of(nll.of(np.subtract, column, other)) if causal else None,
            distance=Interval.of(distance.of(np.subtract, column, other)),
            share=Interval.of(of_lost) if of_lost is not None else None,
        )

    def costs(layer: int, way: str) -> result.Costs:
        own, permuted, offset = (columns[layer, way, part] for part in PARTS)
        return result.Costs(
            own=difference(own),
            permuted=difference(permuted),
            beyond_permuted=difference(own, permuted),
            offset=difference(offset),
            beyond_offset=difference(own, offset),
        )

    def output(layer: int) -> result.Output:
        return result.Output(
            **measures[layer]._asdict(),
            removed=costs(layer, "removed"),
            injected=costs(layer, "injected"),
        )

    return result.PositionInterventions(
        is_causal=causal,
        n_layers=n_layers,
        documents=len(lengths),
        tokens=int(lengths.sum()),
        positions=positions,
        calibration=calibration,
        confidence=parameters.confidence,
        nll=Interval.of(nll.of(lambda own: own, INTACT)) if causal else None,
        without=difference(WITHOUT),
        layers=[
            result.Layer(layer=layer, **dict(output(layer)), withheld=costs(layer, "withheld"))
            for layer in range(n_layers)
        ],
        output=output(n_layers),
    )


def share(own: Floats, other: Floats, intact: Floats, without: Floats) -> Floats:
    """A difference as a part of what is lost without positions: 0 is intact, 1 is without."""
    return (own - other) / (without - intact)


main = of_tokens(MEASUREMENT, measure, is_for=lambda reading: reading.positions != ROTATION)

if __name__ == "__main__":
    run(main)
