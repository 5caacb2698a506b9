"""Signals of many documents: sums of their power, and what their bands do to attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.patterns import attention_pattern, uniform_pattern
from posenc.metrics.spectra import band_pass, locked_share, pattern_distance, power_spectrum


class Powers:
    """Running sums of one quantity: power by frequency, and what first windows have in common.

    Parameters
    ----------
    window, masks
        Tokens of a window, and bool [bands, frequencies]: frequencies of each band.

    Attributes
    ----------
    power
        float64 [layers, heads, frequencies]: sum over windows of the mean power of columns.
    windows
        How many windows there were.
    by_band
        [documents] of float64 [layers, bands + 1]: sums over a document's windows of the power at
        frequency 0, and of each band without it.
    """

    def __init__(self, window: int, masks: ArrayLike) -> None:
        masks = np.asarray(masks, bool)
        varying = masks.copy()  # [bands, frequencies]
        varying[:, 0] = False
        constant = np.arange(masks.shape[1]) == 0  # [frequencies]
        self._bands = np.vstack([constant, varying]).T.astype(np.float64)  # [frequencies, bands+1]
        self._window = window
        self._first: Any = 0.0  # [layers, heads, window, columns]
        self._first_power: Any = 0.0  # [layers, heads, frequencies]
        self.power: Any = 0.0
        self.windows = 0
        self.by_band: list[NDArray[np.float64]] = []

    def add(self, signals: NDArray[np.float32]) -> None:
        """Take in the windows of a document, [layers, heads, windows * window, columns]."""
        layers, heads, tokens, columns = signals.shape
        shape = (layers, heads, tokens // self._window, self._window, columns)
        windows = signals.reshape(shape)
        # [layers, heads, windows, frequencies]
        power = power_spectrum(windows).mean(axis=-1).astype(np.float64)
        summed = power.sum(axis=2)  # [layers, heads, frequencies]
        self.power = self.power + summed
        self.windows += shape[2]
        self._first = self._first + windows[:, :, 0]
        self._first_power = self._first_power + power[:, :, 0]
        self.by_band.append(summed.mean(axis=1) @ self._bands)

    def locked(self) -> NDArray[np.float64]:
        """Share of the first windows' power that is locked to position, [layers, frequencies]."""
        n = len(self.by_band)
        of_mean = power_spectrum(self._first / n).mean(axis=(1, 3))  # [layers, frequencies]
        return locked_share(self._first_power.mean(axis=1) / n, of_mean, n)


class BandPatterns:
    """Distances of attention patterns of filtered queries and keys, document after document.

    Parameters
    ----------
    window, masks
        As of :class:`Powers`.
    causal
        Whether a query sees the keys up to its own only, or all.

    Attributes
    ----------
    distances
        For each document, float64 [2 bands + 2, layers, heads]: mean total variation distance from
        the unfiltered pattern, of the pattern with one band only, without one band, with all
        frequencies, and of a uniform one.
    """

    def __init__(self, window: int, masks: ArrayLike, causal: bool) -> None:
        masks, self._causal = np.asarray(masks, bool), causal
        everything = np.ones((1, masks.shape[1]), bool)
        self._masks = np.vstack([masks, ~masks, everything])  # [filters, frequencies]
        uniform = uniform_pattern(window, causal=causal)
        self._uniform = uniform.astype(np.float32)  # [window, window]
        self.distances: list[NDArray[np.float64]] = []

    def add(self, queries: NDArray[np.float32], keys: NDArray[np.float32]) -> None:
        """Take in a document, [layers, heads, window, d_head] each."""
        distances = np.empty(
            (len(self._masks) + 1, *queries.shape[:2])
        )  # [filters + 1, layers, heads]
        # A layer at a time: its patterns stay in the processor's cache.
        for layer, (q, k) in enumerate(zip(queries, keys, strict=True)):  # [heads, window, d_head]
            whole = attention_pattern(q, k, causal=self._causal)  # [heads, window, window]
            pairs = zip(band_pass(q, self._masks), band_pass(k, self._masks), strict=True)
            for number, pair in enumerate(pairs):
                pattern = attention_pattern(*pair, causal=self._causal)  # [heads, window, window]
                distances[number, layer] = pattern_distance(pattern, whole)
            distances[-1, layer] = pattern_distance(whole, self._uniform)
        self.distances.append(distances)
