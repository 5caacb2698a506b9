"""What it finds out about a model on a text."""

from __future__ import annotations

from typing import Literal

from posenc.artifacts.results import Interval, OfDocuments, Part


class Scale(Part):
    """How much the scale 1 / √(variance + eps) of a normalisation differs between tokens."""

    mean: Interval
    sd: float
    variation: Interval
    """Standard deviation over mean."""
    correlation: Interval | None
    """With position (Pearson); None where either is constant."""
    quantiles: dict[str, float]
    """By level, ``0.05`` and so on."""


class Spectrum(Part):
    """Amplitudes of the position embeddings along the sequence, mean over d_model."""

    frequency: list[float]
    """[window // 2 + 1], in cycles per token."""
    position: list[float]
    """[window // 2 + 1], with the scale at its mean everywhere."""
    scaled: list[Interval]
    """[window // 2 + 1], with the scale of each token; mean over documents."""


class Between(Part):
    """Shares of the variance that lie between positions."""

    input: Interval | None
    output: Interval | None
    shuffled: Interval | None
    """Of the output, between positions that are not the tokens' own."""


class Shares(Part):
    """Shares of the output's variance: 1 together."""

    position: Interval | None
    """Of the embedding P alone."""
    rest: Interval | None
    shared: Interval | None
    """Twice the covariance of both."""


class Cosine(Part):
    """Cosine of the output's mean part with the input's."""

    position: Interval | None
    content: Interval | None
    shuffled: Interval | None
    """Of the means at shuffled positions, which are means of content."""


class Gain(Part):
    """What is left of the input's mean part, along itself, per unit."""

    position: Interval | None
    content: Interval | None
    shuffled: Interval | None
    """Of the means at shuffled positions, which are means of content."""
    relative: Interval | None
    """Position's over content's."""


class Sources(Part):
    """Where a part of the output has come from, as shares: 1 together."""

    position: Interval | None
    tokens: Interval | None
    """From words, and from biases of normalisations."""
    attention: Interval | None
    mlp: Interval | None


class Normalisation(Part):
    """One normalisation, in the order in which a token passes them.

    Tokens are those after the first of each document. Estimates are None where the data show no
    such part.
    """

    name: str
    layer: int | None
    """Its block, from 0; None for one outside of all blocks."""
    scale: Scale
    variation: Interval
    """Standard deviation over mean of the product of all scales that position has passed."""
    window: int
    """Tokens that the spectrum is taken of."""
    windows: int
    """Documents that have them."""
    spectrum: Spectrum
    scale_at_first: float
    """Mean scale of the documents' first tokens."""
    between: Between
    shares: Shares
    gain: Gain
    cosine: Cosine
    sources: Sources
    """Of position's part of the output."""
    content_sources: Sources
    """Of content's part of the output."""


class Path(OfDocuments):
    """All normalisations of a model; ``tokens`` are those after the first of each document."""

    n_layers: int
    placement: Literal["before", "after"]
    """Whether blocks normalise what they are given, or their sum with it."""
    eps: float
    library_error: float
    """Largest difference of the sum of the parts from the library's output, over its largest
    number: the rounding of its type."""
    norms: list[Normalisation]
