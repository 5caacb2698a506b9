"""What it finds out about a run."""

from __future__ import annotations

from typing import Literal

from posenc.artifacts.results import Interval, NotMeasured, OfDocuments, Part


class TooShort(NotMeasured):
    """What it returns where documents are shorter than a window."""

    window: int
    windows: int
    """Of the documents that are as long, if any."""


class Signal(Part):
    """The columns of one tensor as signals along the sequence: power per window, by frequency.

    Means over columns, heads and windows, with 6 significant digits where there is no interval.
    """

    power: list[list[float]]
    """[n_layers, frequencies]; hidden states have one layer more."""
    relative_power: list[list[float]]
    """[n_layers, frequencies - 1]: shares of the power that varies, without frequency 0."""
    constant_to_varying: list[float]
    """[n_layers]: power at frequency 0 over that at all others."""
    constant: list[Interval]
    """[n_layers]: share of frequency 0 in all power."""
    band_shares: list[list[Interval]]
    """[n_layers, bands]: shares of the power that varies."""
    locked: list[list[float]]
    """[n_layers, frequencies]: share of the first windows' power that is locked to position."""
    heads: list[list[list[float]]] | None = None
    """[n_layers, n_heads, frequencies]: power of each head; hidden states have none."""


class Signals(Part):
    """The tensors whose columns are signals."""

    hidden_states: Signal
    queries: Signal
    keys: Signal


class HeadDistances(Part):
    """Distances of :class:`BandPass`, means over documents alone, with 6 significant digits."""

    kept: list[list[list[float]]]
    """[n_layers, n_heads, bands]."""
    left_out: list[list[list[float]]]
    """[n_layers, n_heads, bands]."""
    uniform: list[list[float]]
    """[n_layers, n_heads]."""


class BandPass(Part):
    """Distance of attention patterns of filtered queries and keys from the unfiltered one.

    Mean total variation distance over rows, heads and documents.
    """

    status: Literal["measured"]
    reason: None
    kept: list[list[Interval]]
    """[n_layers, bands], of the pattern with one band only."""
    left_out: list[list[Interval]]
    """[n_layers, bands], of the pattern with all bands but one."""
    uniform: list[Interval]
    """[n_layers], of a uniform pattern."""
    all_frequencies: float
    """The largest where nothing is filtered: rounding."""
    heads: HeadDistances


class NoPattern(Part):
    """Why attention patterns are not those of queries and keys alone."""

    status: Literal["not run"]
    reason: str


class PowerSpectra(OfDocuments):
    """Spectra of hidden states, queries and keys; ``tokens`` are those of all windows."""

    window: int
    """Tokens of a window."""
    windows: int
    first_tokens: list[int]
    """Positions at which the text of documents begins, after special tokens; each once."""
    frequencies: list[float]
    """[window // 2 + 1], in cycles per token."""
    bands: list[float]
    """[bands + 1]: limits, in cycles per token; a limit belongs to the band above."""
    chance_before_correction: float
    """Share that would seem locked to position where nothing is."""
    quantities: Signals
    band_pass: BandPass | NoPattern
