"""What is lost when queries and keys keep one band of frequencies, or lose it (C1, C2)?

``spectra`` says how far the pattern of attention moves. Here the model runs on, with queries and
keys filtered in all layers or in one (:mod:`posenc.capture.filtered`). A decoder's filter sees the
prefix of a query alone: a filter of the whole document would tell a token what follows, and the
loss could fall.

Each filter has two controls: as many directions of the same prefix, drawn at random, the same in
all heads and layers as a band is; and queries and keys that keep their directions and lose as much
of their length. If they cost as much, the band would not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval
from posenc.measurements.filtered_loss import result
from posenc.measurements.filtered_loss.declaration import FEWEST, MEASUREMENT, FilteredLoss
from posenc.measurements.frame import bootstrap
from posenc.measurements.of_models import beginnings, of_tokens
from posenc.metrics.band_projections import random_directions, wave_bands, waves
from posenc.metrics.recovery import PairedMeans
from posenc.metrics.similarity import token_cosines
from posenc.tokens.packing import packs_of
from posenc.tokens.tokenized import Tokens

if TYPE_CHECKING:
    from posenc.capture.masked_attention import PairScores

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
BATCH_TOKENS = 2048
"""Tokens of one forward pass."""
MEAN = "mean"
"""In place of the number of a band: the constant alone, which is part of the lowest."""
WAYS = ("kept", "left_out")
CONTROLS = ("random", "scaled")
"""Of each filter, in this order after it in arrays."""
RESULTS = ("delta_nll", "distance")


class Filter(NamedTuple):
    """Frequencies along the sequence.

    Attributes
    ----------
    band
        ``mean``, or the number of a band.
    way
        Whether they are all that is kept, or what is left out.
    """

    band: str | int
    way: str

    def kept(self, tokens: int, limits: list[float]) -> Booleans:
        """Which cosines of so many tokens are left, bool [tokens]."""
        chosen = np.arange(tokens) == 0  # [tokens]
        if isinstance(self.band, int):
            chosen = wave_bands(tokens, limits)[self.band]
        return chosen if self.way == "kept" else ~chosen


def measure(parameters: FilteredLoss, network: Any, text: Tokens) -> result.FilteredLoss:
    """Run drawn documents once for each filter and control, in all layers and in each."""
    from posenc.capture.parts import architecture, is_decoder

    documents = beginnings(
        text, parameters.documents,
        f"measurements.filtered_loss.documents is {parameters.documents}",
        tokens=parameters.tokens, shortest=FEWEST, seed=parameters.seed,
    )  # fmt: skip
    causal = is_decoder(network)
    lengths = np.array([len(ids) for ids in documents])  # [documents]
    bands = range(len(parameters.bands) + 1)
    filters = [Filter(band, way) for band in (MEAN, *bands) for way in WAYS]
    intact, sums = run_filtered(parameters, network, documents, filters)
    nll, of_filters = results(parameters, filters, intact, sums, lengths, causal)
    return result.FilteredLoss(
        is_causal=causal,
        n_layers=architecture(network).n_layers,
        documents=len(documents),
        tokens=int(lengths.sum()),
        confidence=parameters.confidence,
        bands=[0.0, *parameters.bands, 0.5],
        nll=nll,
        filters=of_filters,
    )


def run_filtered(
    parameters: FilteredLoss, network: Any, documents: list[list[int]], filters: list[Filter]
) -> tuple[Floats, Floats]:
    """Sums over the tokens of each document.

    Returns
    -------
    intact
        [documents, results]: losses in nats (0 of an encoder), and 1 minus the cosine of last
        hidden states with the intact model's.
    sums
        The same of filters, [documents, filters, 1 + controls, 1 + n_layers, results]: the band
        itself comes first, and so do all layers together.
    """
    from posenc.capture.capture import packed_states
    from posenc.capture.filtered import states_scored
    from posenc.capture.parts import architecture, is_decoder

    causal = is_decoder(network)
    n_layers = architecture(network).n_layers
    where = [range(n_layers), *([layer] for layer in range(n_layers))]
    lengths = np.array([len(ids) for ids in documents])  # [documents]
    # Neighbours of equal length share calls.
    order = np.argsort(lengths, kind="stable").tolist()
    intact = np.zeros((len(documents), len(RESULTS)))
    sums = np.zeros((len(documents), len(filters), 1 + len(CONTROLS), len(where), len(RESULTS)))
    total = int(lengths.sum()) * sums[0, ..., 0].size  # tokens times runs
    packs = []
    for pack in packs_of(lengths, order, BATCH_TOKENS):
        ids = [documents[index] for index in pack.documents]
        # What each layer is given, and what the last one gives: [tokens, d_model] each.
        states = [state[0] for state in packed_states(network, ids)]
        packs.append((pack.documents, ids, states))
        intact[pack.documents] = effects(network, ids, states[-1], states[-1], causal)
    with tqdm(total=total, unit="token", desc="filters", mininterval=5) as progress:
        for number, band_filter in enumerate(filters):
            for effect, scores in enumerate(
                all_scores(parameters, band_filter, causal, lengths.max())
            ):
                for place, layers in enumerate(where):
                    for rows, ids, states in packs:
                        begin = states[layers[0]]
                        last = states_scored(network, ids, scores, layers, begin)
                        of_pack = effects(network, ids, last, states[-1], causal)
                        sums[rows, number, effect, place] = of_pack
                        progress.update(len(last))
    return intact, sums


def all_scores(
    parameters: FilteredLoss, band_filter: Filter, causal: bool, longest: int
) -> Iterator[PairScores]:
    """Products of queries and keys under a filter, then under each of its controls."""
    from posenc.capture.filtered import Filtered, Projections, Scaled

    def kept(tokens: int) -> Booleans:
        return band_filter.kept(tokens, parameters.bands)

    def vary(tokens: int) -> Booleans:
        return np.arange(tokens) > 0

    projections = Projections(waves, kept, causal, longest)
    yield Filtered(projections)
    yield Filtered(Projections(random_directions(parameters.seed), kept, causal, longest))
    varying = Projections(waves, lambda tokens: kept(tokens) & vary(tokens), causal, longest)
    yield Scaled(projections, varying, Projections(waves, vary, causal, longest))


def effects(network: Any, ids: list[list[int]], last: Any, intact: Any, causal: bool) -> Floats:
    """Sums over the tokens of each document, [documents, results]: losses, and 1 minus cosines."""
    from posenc.capture.capture import document_losses

    ends = np.cumsum([len(document) for document in ids])[:-1]
    distances = np.split(1 - token_cosines(last.numpy(), intact.numpy()), ends)
    sums = np.zeros((len(ids), len(RESULTS)))
    sums[:, 1] = [of_document.sum() for of_document in distances]
    if causal:
        losses = document_losses(network, last, ids)  # [tokens - 1] each
        sums[:, 0] = [of_document.sum(dtype=np.float64) for of_document in losses]
    return sums


def results(
    parameters: FilteredLoss,
    filters: list[Filter],
    intact: Floats,
    sums: Floats,
    lengths: NDArray[np.int64],
    causal: bool,
) -> tuple[Interval | None, list[result.Filter]]:
    """The intact model's loss, and what each filter costs, beside its controls and beyond them."""
    flat = sums.reshape(len(sums), -1, len(RESULTS))  # [documents, runs, results]
    every = np.concatenate([intact[:, None], flat], axis=1)  # [documents, 1 + runs, results]
    runs = 1 + np.arange(flat.shape[1]).reshape(sums.shape[1:-1])  # columns of ``every``
    # All tokens of a document but the first are predicted.
    nll = PairedMeans(every[..., 0], lengths - 1, **bootstrap(parameters))
    distance = PairedMeans(every[..., 1], lengths, **bootstrap(parameters))

    def difference(column: int, other: int) -> result.Difference:
        return result.Difference(
            delta_nll=Interval.of(nll.of(np.subtract, column, other)) if causal else None,
            distance=Interval.of(distance.of(np.subtract, column, other)),
        )

    def costs(number: int, place: int) -> dict[str, result.Difference]:
        own, random, scaled = runs[number, :, place]
        return {
            "cost": difference(own, 0),
            "random": difference(random, 0),
            "beyond_random": difference(own, random),
            "scaled": difference(scaled, 0),
            "beyond_scaled": difference(own, scaled),
        }

    of_filters = [
        result.Filter(
            band=band_filter.band,
            way=band_filter.way,
            share=share(band_filter, parameters.bands, lengths, causal),
            layers=[
                result.Layer(layer=layer, **costs(number, 1 + layer))
                for layer in range(sums.shape[3] - 1)
            ],
            **costs(number, 0),
        )
        for number, band_filter in enumerate(filters)
    ]
    return Interval.of(nll.of(lambda own: own, 0)) if causal else None, of_filters


def share(
    band_filter: Filter, limits: list[float], lengths: NDArray[np.int64], causal: bool
) -> float:
    """Which share of the cosines of what a query sees is kept: a mean over queries."""
    seen = [range(1, length + 1) if causal else [length] * length for length in lengths.tolist()]
    return float(np.mean([band_filter.kept(n, limits).mean() for of in seen for n in of]))


main = of_tokens(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
