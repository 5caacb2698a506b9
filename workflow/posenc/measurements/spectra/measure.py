"""Hidden states, queries and keys as signals along the sequence: spectra and bands (C1, C2).

Windows of whole length are cut from each document one after another, the first at the document's
first token of text: special tokens at either end, which are the same in all documents, are left
out. The first windows of all documents thus begin at the same position, so only they show what is
locked to it.

Bands are filtered from the first ``window`` tokens of each document, special ones included: there
the unfiltered pattern is the decoder's own, and the encoder's but for keys beyond the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.artifacts.results import Interval
from posenc.measurements.frame import command, naming
from posenc.measurements.spectra.declaration import MEASUREMENT, Spectra
from posenc.measurements.spectra.result import (
    BandPass,
    HeadDistances,
    NoPattern,
    PowerSpectra,
    Signal,
    Signals,
    TooShort,
)
from posenc.metrics.bootstrap import Estimate, ratio_bootstrap
from posenc.metrics.signals import BandPatterns, Powers
from posenc.metrics.spectra import band_masks, frequencies

QUANTITIES = ("hidden_states", "queries", "keys")


@dataclass(frozen=True)
class Piece:
    """Where a document's signals lie: rows of a shard, without special tokens at either end."""

    shard: int
    start: int
    text: slice


def measure(
    parameters: Spectra, intact: ActivationStore, condition: ActivationStore
) -> PowerSpectra | TooShort:
    """Compute the measurement of one store, document after document."""
    window = parameters.window
    taken = pieces(parameters, condition)
    windows = sum((span.text.stop - span.text.start) // window for span in taken)
    if len(taken) < 2:
        longest = int(condition.documents["length"].to_numpy().max())
        return TooShort(
            reason=f"fewer than 2 documents have {window} tokens of text; the longest document "
            f"has {longest}",
            documents=len(taken),
            tokens=windows * window,
            confidence=parameters.confidence,
            window=window,
            windows=windows,
        )
    try:
        masks = band_masks(window, parameters.bands)  # [bands, frequencies]
    except ValueError as error:
        raise ArtifactError(f"measurements.spectra of params.yaml: {error}") from error
    powers = {name: Powers(window, masks) for name in QUANTITIES}
    no_pattern = why_no_pattern(condition)
    bands = None if no_pattern else BandPatterns(window, masks, condition.metadata["is_decoder"])
    for piece, signals, pair in read(condition, taken, window):
        with naming(f"{condition.directory}, shard {piece.shard}"):
            for name in QUANTITIES:
                powers[name].add(signals[name])
            if bands:
                bands.add(*pair)
    passed: BandPass | NoPattern
    if bands:
        passed = of_bands(parameters, np.stack(bands.distances), len(masks))
    else:
        passed = NoPattern(status="not run", reason=str(no_pattern))
    return PowerSpectra(
        documents=len(taken),
        tokens=windows * window,
        confidence=parameters.confidence,
        window=window,
        windows=windows,
        first_tokens=sorted({span.text.start - span.start for span in taken}),
        frequencies=frequencies(window).tolist(),
        bands=[0.0, *parameters.bands, 0.5],
        chance_before_correction=1 / len(taken),
        quantities=Signals(**{name: summary(parameters, powers[name], name) for name in powers}),
        band_pass=passed,
    )


def of_bands(
    parameters: Spectra,
    distances: NDArray[np.float64],  # [documents, 2 bands + 2, layers, heads]
    bands: int,
) -> BandPass:
    """Means over documents, by layer with intervals, by head without: see :class:`BandPatterns`."""
    kept, left_out = distances[:, :bands], distances[:, bands:-2]

    def of_layers(part: NDArray[np.float64]) -> list[list[Interval]]:
        """[layers][filters]."""
        return intervals(parameters, np.moveaxis(part.mean(axis=-1), 1, 2))

    def of_heads(part: NDArray[np.float64]) -> list[list[list[float]]]:
        """[layers][heads][filters]."""
        return rounded(np.moveaxis(part.mean(axis=0), 0, -1))

    return BandPass(
        status="measured",
        reason=None,
        kept=of_layers(kept),
        left_out=of_layers(left_out),
        uniform=[interval for (interval,) in of_layers(distances[:, -1:])],
        all_frequencies=float(distances[:, -2].max()),
        heads=HeadDistances(
            kept=of_heads(kept),
            left_out=of_heads(left_out),
            uniform=rounded(distances[:, -1].mean(axis=0)),
        ),
    )


def pieces(parameters: Spectra, store: ActivationStore) -> list[Piece]:
    """The documents that have a window, among the first ones that are asked for."""
    table = store.documents
    last = len(table) if parameters.documents is None else min(parameters.documents, len(table))
    shards, starts, lengths = (
        table[name].to_numpy()[:last] for name in ("shard", "start", "length")
    )  # [documents] each
    taken = []
    for shard in np.unique(shards):
        special = store.special_mask(int(shard))  # [tokens of the shard]
        for start, length in zip(starts[shards == shard], lengths[shards == shard], strict=True):
            text = np.flatnonzero(~special[start : start + length])  # [tokens of text]
            windows = (text[-1] + 1 - text[0]) // parameters.window if len(text) else 0
            if windows:
                begin = int(start + text[0])
                end = int(begin + windows * parameters.window)
                taken.append(Piece(int(shard), int(start), slice(begin, end)))
    return taken


def read(
    store: ActivationStore, taken: list[Piece], window: int
) -> Iterator[tuple[Piece, dict[str, NDArray], tuple[NDArray, NDArray]]]:
    """Signals of each document in float32, and queries and keys of its first tokens."""
    number, arrays = -1, {}
    for piece in tqdm(taken, unit="document", desc="spectra", mininterval=5):
        if piece.shard != number:
            number = piece.shard
            arrays = {
                "hidden_states": store.hidden_states(number)[:, None],
                "queries": store.queries(number),
                "keys": store.keys(number),
            }  # [layers, heads, tokens of the shard, columns] each
        signals = {
            name: array[:, :, piece.text].astype(np.float32) for name, array in arrays.items()
        }
        first = slice(piece.start, piece.start + window)
        queries, keys = (
            arrays[name][:, :, first].astype(np.float32) for name in ("queries", "keys")
        )
        yield piece, signals, (queries, keys)


def why_no_pattern(store: ActivationStore) -> str | None:
    """Why a condition's attention is more than queries and keys; None if it is not."""
    spec = store.metadata.get("condition") or {}
    if spec.get("mask") is not None:
        return "the condition's mask acts on attention, which queries and keys alone do not show"
    if spec.get("segments") is not None:
        return "the condition cuts documents into segments, between which there is no attention"
    return None


def summary(parameters: Spectra, powers: Powers, quantity: str) -> Signal:
    """Power by frequency; shares of the power that varies by band, with intervals."""
    power = powers.power / powers.windows  # [layers, heads, frequencies]
    mean = power.mean(axis=1)  # [layers, frequencies]
    # [documents, layers, bands + 1]
    by_band = np.stack(powers.by_band)
    varying = by_band[:, :, 1:]  # [documents, layers, bands]
    shares, constant = [], []
    for layer in range(by_band.shape[1]):
        whole = by_band[:, layer].sum(axis=1)  # [documents]
        moving = varying[:, layer].sum(axis=1)  # [documents]
        shares.append(Interval.each(estimate(parameters, varying[:, layer], moving)))
        constant.append(Interval.of(estimate(parameters, by_band[:, layer, 0], whole)))
    of_heads = {} if quantity == "hidden_states" else {"heads": rounded(power)}
    return Signal(
        power=rounded(mean),
        relative_power=rounded(mean[:, 1:] / mean[:, 1:].sum(axis=1, keepdims=True)),
        constant_to_varying=rounded(mean[:, 0] / mean[:, 1:].sum(axis=1)),
        constant=constant,
        band_shares=shares,
        locked=rounded(powers.locked()),
        **of_heads,
    )


def estimate(parameters: Spectra, numerators: NDArray, denominators: NDArray) -> Estimate:
    """A ratio over documents with its interval."""
    if not denominators.sum() > 0:
        raise ArtifactError("a layer does not vary along the sequence: there is no share of it")
    return ratio_bootstrap(
        numerators, denominators, parameters.bootstrap_samples, parameters.confidence,
        parameters.seed,
    )  # fmt: skip


def intervals(parameters: Spectra, means: NDArray[np.float64]) -> list[list[Interval]]:
    """Estimates of [documents, layers, k], as lists [layers][k]."""
    ones = np.ones(len(means))  # [documents]
    return [
        Interval.each(estimate(parameters, means[:, layer], ones))
        for layer in range(means.shape[1])
    ]


def rounded(values: ArrayLike) -> Any:
    """Nested lists of numbers with 6 significant digits."""
    values = np.asarray(values, np.float64)
    if values.ndim:
        return [rounded(value) for value in values]
    return float(f"{float(values):.6g}")


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
