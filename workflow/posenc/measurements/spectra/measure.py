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

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.measurements.frame import command, naming
from posenc.measurements.spectra.declaration import MEASUREMENT, Spectra
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.signals import BandPatterns, Powers
from posenc.metrics.spectra import band_masks, frequencies
from posenc.store.activations import ActivationStore

QUANTITIES = ("hidden_states", "queries", "keys")


@dataclass(frozen=True)
class Piece:
    """Where a document's signals lie: rows of a shard, without special tokens at either end."""

    shard: int
    start: int
    text: slice


def measure(
    parameters: Spectra, intact: ActivationStore, condition: ActivationStore
) -> dict[str, Any]:
    """Compute the measurement of one store, document after document."""
    window = parameters.window
    taken = pieces(parameters, condition)
    shared = {
        "confidence": parameters.confidence,
        "window": window,
        "documents": len(taken),
        "windows": sum((span.text.stop - span.text.start) // window for span in taken),
    }
    shared["tokens"] = shared["windows"] * window
    if len(taken) < 2:
        longest = int(condition.documents["length"].to_numpy().max())
        reason = (
            f"fewer than 2 documents have {window} tokens of text; the longest document "
            f"has {longest}"
        )
        return {"status": "not run", "reason": reason, **shared}
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
    passed: dict[str, Any] = {"status": "not run", "reason": no_pattern}
    if bands:
        by_band = of_bands(parameters, np.stack(bands.distances), len(masks))
        passed = {"status": "measured", "reason": None, **by_band}
    return {
        **shared,
        "first_tokens": sorted({span.text.start - span.start for span in taken}),
        "frequencies": frequencies(window).tolist(),
        "bands": [0.0, *parameters.bands, 0.5],
        "chance_before_correction": 1 / len(taken),
        "quantities": {name: summary(parameters, powers[name], name) for name in QUANTITIES},
        "band_pass": passed,
    }


def of_bands(parameters: Spectra, distances: NDArray[np.float64], bands: int) -> dict[str, Any]:
    """Means over documents, by layer with intervals, by head without.

    ``distances`` are [documents, 2 bands + 2, layers, heads], see :class:`BandPatterns`.
    """
    parts = {
        "kept": distances[:, :bands],
        "left_out": distances[:, bands:-2],
        "uniform": distances[:, -1],
    }
    of_layers, of_heads = {}, {}
    for name, part in parts.items():
        means = np.moveaxis(part.mean(axis=-1).reshape(len(part), -1, part.shape[-2]), 1, 2)
        estimates = intervals(parameters, means)  # [layers][bands or 1]
        of_layers[name] = [row[0] for row in estimates] if name == "uniform" else estimates
        plain = part.mean(axis=0)  # [bands, layers, heads] or [layers, heads]
        of_heads[name] = rounded(plain if name == "uniform" else np.moveaxis(plain, 0, -1))
    return {**of_layers, "all_frequencies": float(distances[:, -2].max()), "heads": of_heads}


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


def summary(parameters: Spectra, powers: Powers, quantity: str) -> dict[str, Any]:
    """Power by frequency; shares of the power that varies by band, with intervals.

    Shares of bands are of the power without frequency 0; ``constant`` is the share of frequency 0
    in all power.
    """
    power = powers.power / powers.windows  # [layers, heads, frequencies]
    mean = power.mean(axis=1)  # [layers, frequencies]
    # [documents, layers, bands + 1]
    by_band = np.stack(powers.by_band)
    varying = by_band[:, :, 1:]  # [documents, layers, bands]
    shares, constant = [], []
    for layer in range(by_band.shape[1]):
        whole = by_band[:, layer].sum(axis=1)  # [documents]
        moving = varying[:, layer].sum(axis=1)  # [documents]
        shares.append(estimate(parameters, varying[:, layer], moving))
        constant.append(estimate(parameters, by_band[:, layer, 0], whole))
    results = {
        "power": rounded(mean),
        "relative_power": rounded(mean[:, 1:] / mean[:, 1:].sum(axis=1, keepdims=True)),
        "constant_to_varying": rounded(mean[:, 0] / mean[:, 1:].sum(axis=1)),
        "constant": constant,
        "band_shares": shares,
        "locked": rounded(powers.locked()),
    }
    return results if quantity == "hidden_states" else {**results, "heads": rounded(power)}


def estimate(parameters: Spectra, numerators: NDArray, denominators: NDArray) -> Any:
    """A ratio over documents with its interval."""
    if not denominators.sum() > 0:
        raise ArtifactError("a layer does not vary along the sequence: there is no share of it")
    return ratio_bootstrap(
        numerators, denominators, parameters.bootstrap_samples, parameters.confidence,
        parameters.seed,
    ).as_json()  # fmt: skip


def intervals(parameters: Spectra, means: NDArray[np.float64]) -> list[list[dict[str, float]]]:
    """Estimates of [documents, layers, k], as lists [layers][k]."""
    ones = np.ones(len(means))  # [documents]
    return [estimate(parameters, means[:, layer], ones) for layer in range(means.shape[1])]


def rounded(values: ArrayLike) -> Any:
    """Nested lists of numbers with 6 significant digits."""
    values = np.asarray(values, np.float64)
    if values.ndim:
        return [rounded(value) for value in values]
    return float(f"{float(values):.6g}")


main = command(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
