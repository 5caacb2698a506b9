"""What it finds out about a run."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class Layer(Part):
    """The hidden states of one layer beside the intact model's, token by token.

    Similarities are means over tokens. One that is rescaled is 0 at its null and 1 for equal
    states; None where tokens offer no such pairs, or no room above the null.
    """

    layer: int
    """From 0, the embedding."""
    name: str
    """``embedding``, ``block 1`` and so on, ``last``."""
    token_sd: float
    """Standard deviation of the cosine over tokens."""
    cosine: Interval
    baseline: Interval
    """Cosine of random pairs of tokens in the intact model."""
    rescaled: Interval
    same_document: Interval | None
    """Cosine of pairs of different tokens in one document."""
    rescaled_same_document: Interval | None
    same_token: Interval | None
    """Cosine of pairs of the same token in different documents."""
    rescaled_same_token: Interval | None
    cka: float
    """Linear CKA of the sampled tokens; it is no mean over tokens, so it has no interval."""
    centred: Interval
    """Cosine without the mean state."""
    standardised: Interval
    """Cosine of dimensions that are divided by their deviation."""
    retrieval: Interval
    """Share of tokens whose nearest state in the intact model is their own."""


class GaussianNull(Part):
    """The cosine of independent Gaussian vectors as wide as the hidden states."""

    mean: float
    sd: float


class Similarities(OfDocuments):
    """Cosines of a condition's hidden states with the intact model's, and their nulls."""

    d_model: int
    sample_tokens: int
    """Tokens that are compared with each other."""
    same_token_share: float
    """Share of tokens that occur in another document, too."""
    layers: list[Layer]
    gaussian_null: GaussianNull
    histograms: dict[str, list[float] | dict[str, list[float]]]
    """``edges`` [bins + 1] over [-1, 1]; of the first and the last layer, the density [bins] of the
    cosine and of each null."""
