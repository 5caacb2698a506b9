"""Which heads of a rotary model need their rotation (F5)?

Rotation is taken from one head at a time, from the heads of one layer, and from pairs with one key;
what that costs is a difference of losses on the same tokens. Heads are ranked by it on one half of
the documents, and what the ranking is worth is measured on the other: sets of the heads that need
rotation most lose theirs together, and as controls as many that need it least, and as many drawn at
random. Were a few heads all that rotation is for, the first would cost as much as taking it from
every head, and the second nothing; and rotation in these alone would do, which is tried as well.
The key at place 0 has controls, too: the keys after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.positions import ROTATION
from posenc.measurements.frame import bootstrap, not_run
from posenc.measurements.of_models import beginnings, of_tokens
from posenc.measurements.unrotated_heads.declaration import FEWEST, MEASUREMENT, UnrotatedHeads
from posenc.measurements.unrotated_heads.result import Head, HeadSet, Key, Layer, Rotations
from posenc.metrics.recovery import PairedMeans
from posenc.tokens.packing import packs_of
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.float64]
BATCH_TOKENS = 4096
"""Tokens of one forward pass."""


class Choice(NamedTuple):
    """What loses its rotation in one run.

    Attributes
    ----------
    heads
        bool [n_layers, n_heads].
    key
        Only in pairs with the key at this place; None for all keys.
    """

    heads: NDArray[np.bool_]
    key: int | None = None


class Together(NamedTuple):
    """Heads that lose rotation together, or keep it alone: how they were chosen, several times."""

    how: str
    size: int
    choices: list[Choice]


def measure(parameters: UnrotatedHeads, network: Any, text: Tokens) -> Rotations | NotMeasured:
    """Take the rotation from heads, layers and keys of a model, on the beginnings of documents."""
    if network is None:
        return not_run("positions come in by a table: no head is turned", parameters)
    documents = beginnings(
        text, parameters.documents,
        f"measurements.unrotated_heads.documents is {parameters.documents}",
        tokens=parameters.tokens, shortest=FEWEST, seed=parameters.seed,
    )  # fmt: skip
    from scipy.stats import spearmanr

    from posenc.capture.parts import architecture

    n_layers = architecture(network).n_layers
    shape = (n_layers, architecture(network).n_heads)
    every = np.ones(shape, bool)
    layers = np.repeat(np.arange(n_layers), shape[1])  # [heads], of each head
    alone = [
        Choice(~every),
        Choice(every),
        *(Choice(every, key) for key in parameters.keys),
        *(Choice(among(shape, layers == layer)) for layer in range(n_layers)),
        *(Choice(among(shape, [head])) for head in range(every.size)),
    ]
    nll = losses(network, documents, alone)  # [documents, choices]
    # They stand in the order that they were drawn in, which is random.
    is_tried = np.arange(len(documents)) % 2 == 1
    tokens = np.array([len(ids) - 1 for ids in documents])  # [documents]
    ranking, trial = (
        (nll[half, -every.size :] - nll[half, :1]).sum(axis=0) / tokens[half].sum()
        for half in (~is_tried, is_tried)
    )  # [heads] each: nats per token
    sets = list(together(parameters, ranking, shape))
    tried = [ids for ids, is_chosen in zip(documents, is_tried, strict=True) if is_chosen]
    of_sets = losses(network, tried, [choice for group in sets for choice in group.choices])
    means = PairedMeans(nll, tokens, **bootstrap(parameters))
    costs = (Interval.of(means.of(np.subtract, column, 0)) for column in range(1, len(means.value)))
    return Rotations(
        documents=len(documents),
        tokens=int(tokens.sum()),
        confidence=parameters.confidence,
        n_layers=shape[0],
        n_heads=shape[1],
        nll=Interval.of(means.of(lambda own: own, 0)),
        # In the order of `alone`.
        all=next(costs),
        keys=[Key(key=key, delta_nll=next(costs)) for key in parameters.keys],
        layers=[Layer(layer=layer, delta_nll=next(costs)) for layer in range(n_layers)],
        heads=[
            Head(layer=layer, head=head, delta_nll=next(costs)) for layer, head in np.ndindex(shape)
        ],
        agreement_of_halves=float(spearmanr(ranking, trial).statistic),
        tried=len(tried),
        sets=set_results(parameters, sets, nll[is_tried, :2], of_sets, tokens[is_tried]),
    )


def among(shape: tuple[int, int], places: Any) -> NDArray[np.bool_]:
    """Some heads, by their places in the list of all, layer after layer: [n_layers, n_heads]."""
    chosen = np.zeros(shape[0] * shape[1], bool)
    chosen[places] = True
    return chosen.reshape(shape)


def together(
    parameters: UnrotatedHeads, ranking: Floats, shape: tuple[int, int]
) -> Iterator[Together]:
    """Heads that cost most, that cost least, and any, by a ranking [heads] in nats.

    The first and the last are also those that keep rotation, where all others lose it.
    """
    order = np.argsort(-ranking, kind="stable")  # [heads]
    generator = np.random.default_rng(parameters.seed)
    for count in parameters.counts:
        drawn = [generator.permutation(len(order))[:count] for _ in range(parameters.draws)]
        places = {"strongest": [order[:count]], "weakest": [order[::-1][:count]], "random": drawn}
        for how, own in places.items():
            yield Together(how, count, [Choice(among(shape, heads)) for heads in own])
        for how in ("strongest", "random"):
            kept = [Choice(~among(shape, heads)) for heads in places[how]]
            yield Together(f"only_{how}", count, kept)


def losses(network: Any, documents: list[list[int]], choices: Sequence[Choice]) -> Floats:
    """Sums of each document's losses in nats, [documents, choices]."""
    from posenc.capture.capture import document_losses
    from posenc.capture.unrotated import layer_inputs, states_unrotated

    lengths = np.array([len(ids) for ids in documents])
    # Neighbours of equal length share calls.
    order = np.argsort(lengths, kind="stable").tolist()
    sums = np.zeros((len(documents), len(choices)))
    total = int(lengths.sum()) * len(choices)
    with tqdm(total=total, unit="token", desc="heads", mininterval=5) as progress:
        for pack in packs_of(lengths, order, BATCH_TOKENS):
            ids = [documents[index] for index in pack.documents]
            inputs = layer_inputs(network, ids)  # [tokens, d_model] each
            for column, choice in enumerate(choices):
                last = states_unrotated(network, ids, inputs, *choice)  # [tokens, d_model]
                own = document_losses(network, last, ids)  # [tokens - 1] each
                sums[pack.documents, column] = [
                    document_nll.sum(dtype=np.float64) for document_nll in own
                ]
                progress.update(pack.tokens)
    return sums


def set_results(
    parameters: UnrotatedHeads,
    sets: Sequence[Together],
    ends: Floats,  # [tried, 2]: sums of losses of the intact model, and without any rotation
    nll: Floats,  # [tried, choices of all sets]: the same of each choice
    tokens: NDArray[np.int64],  # [tried]
) -> list[HeadSet]:
    """What sets of heads cost together, and as a share of what all cost; means over draws."""
    edges = np.cumsum([0, *(len(group.choices) for group in sets)])
    columns = [nll[:, edges[k] : edges[k + 1]].mean(axis=1) for k in range(len(sets))]
    means = PairedMeans(np.column_stack([ends, *columns]), tokens, **bootstrap(parameters))
    return [
        HeadSet(
            choice=group.how,
            count=group.size,
            draws=len(group.choices),
            delta_nll=Interval.of(means.of(np.subtract, column, 0)),
            share=Interval.of(means.of(share, column, 0, 1)),
        )
        for column, group in enumerate(sets, start=2)
    ]


def share(own: Floats, intact: Floats, without: Floats) -> Floats:
    """Which part of what is lost without any rotation is lost already."""
    return (own - intact) / (without - intact)


main = of_tokens(MEASUREMENT, measure, is_for=lambda reading: reading.positions == ROTATION)

if __name__ == "__main__":
    run(main)
