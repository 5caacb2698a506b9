"""What it finds out about a model.

An offset is the position of the key minus that of the query, in tokens.
"""

from __future__ import annotations

from posenc.artifacts.results import Part, Result, Spread


class Profile(Part):
    """Attention by offset, if there were nothing but position."""

    mass: list[float | None]
    """Share of the attention, [2 offsets + 1]; None where a key is masked."""
    preference: list[float | None]
    """Log of how many times as much it is as that of a uniform pattern, nats, [2 offsets + 1]."""
    peak: int
    """Offset where it is furthest above a uniform pattern."""
    peak_mass: float
    """Share of the attention there."""
    mean_offset: float | None
    """Mean within the window; None where there is no attention within it."""


class Pair(Part):
    """A pair of signals, of queries and of keys, that belong to one singular value."""

    pair: int
    """From 0, by falling singular value."""
    frequency: float
    """Strongest frequency that both have, cycles per token."""
    phase: float
    """Radians."""
    lag: float
    """Offset that the phase is a shift by, tokens, within half a period."""
    share: float
    """Share of this frequency in the cross spectrum."""
    coherence: float
    """Squared, at this frequency."""
    contribution: float
    """What the pair adds to the score at its own lag."""


class Head(Part):
    """Where a head would look if there were nothing but position."""

    layer: int
    head: int
    singular_values: list[float | None]
    """Of the product of its query and key maps, falling, [d_head or fewer]."""
    score: list[float | None]
    """Mean score by offset, [2 offsets + 1]; None where a key is masked."""
    predicted_lag: int
    """Offset where the score is highest."""
    profile: Profile
    pairs: list[Pair]
    """Those that contribute most, in falling order."""
    pairs_share: float
    """Share of these pairs in what all pairs contribute."""


class Residuals(Part):
    """How far identities are from holding in the worst layer, relative to the largest score."""

    scores: float
    """Scores that are rebuilt from singular vectors."""
    trace: float
    """Sums over diagonals, from cross-correlations of signals."""


class NullRotation(Part):
    """What turning the null space of a head's maps at random changes, relative to what it was."""

    weights: float
    """Largest change of an entry of the product of the maps."""
    null_spectra: Spread
    """Change of the amplitude spectra of the signals that belong to the singular value 0."""
    identified_spectra: float
    """The largest change of those of the other signals."""
    singular_values: float
    """Largest difference of singular values from those of the full decomposition."""


class RelativeOffsets(Result):
    """What weights alone say of offsets between query and key, for all heads of a model."""

    family: str
    is_causal: bool
    n_layers: int
    n_heads: int
    rows: int
    """Positions that the heads are given."""
    input: str
    """What stands for the input of a block."""
    offsets: list[int]
    """Of scores and of attention, [2 offsets + 1]."""
    position_variance: dict[str, float]
    """Share of the variance of position embeddings in so many leading principal components."""
    uniform: list[float | None]
    """Attention by offset of a uniform pattern, [2 offsets + 1]."""
    residuals: Residuals
    null_rotation: NullRotation | None
    """Of the first head; None where there is no null space to turn."""
    heads: list[Head]
    """Of the first layer, then of the next one."""
