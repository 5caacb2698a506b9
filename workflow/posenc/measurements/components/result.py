"""What it finds out about a run."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part, Spread


class Principal(Part):
    """Leading principal components of a layer, [components] each, in falling order of variance."""

    position_share: list[float]
    """Share of each component's variance that lies between positions, less chance."""
    position_share_shuffled: list[float]
    """The same with shuffled positions."""
    variance_share: list[float]
    """Share of the variance of the hidden states."""
    cumulative_share: list[float]


class Independent(Part):
    """Independent components of these, from several starts of the search."""

    position_share: list[float]
    """[components], falling: as of the principal components, the mean over starts."""
    position_share_shuffled: list[float]
    """[components]: the same with shuffled positions."""
    largest_share: Spread | None
    """The largest position share, over starts."""
    converged: bool
    """Whether every search ended by itself."""
    iterations: int
    """The most that a search took."""
    rank: int
    """How many components there are."""
    halves_converged: bool
    """The same as ``converged``, of the searches in either half of the documents."""
    amari_between_halves: list[float | None]
    """[starts]: Amari index of the components of both halves, 0 for equal ones; None where a half
    has fewer than it has signals."""


class Canonical(Part):
    """Canonical correlations of the principal components with waves of position, [pairs] each."""

    in_sample: list[float]
    held_out: list[Interval]
    """In documents that they were not fitted to."""
    shuffled: list[Interval]
    """The same with shuffled positions; the interval is over shuffles."""


class Layer(Part):
    """The components of the hidden states of one layer."""

    layer: int
    """From 0, the embedding."""
    name: str
    """``embedding``, ``block 1`` and so on, ``last``."""
    principal: Principal
    independent: Independent
    canonical: Canonical


class PositionComponents(OfDocuments):
    """Components of sampled hidden states, one for each of the ``tokens``, and position in them."""

    components: int
    """Principal components of each layer."""
    positions: int
    """Different positions of the tokens."""
    periods: list[float]
    """[harmonics]: of the waves of position, in tokens."""
    folds: int
    """Folds of documents for canonical correlations."""
    shuffles: int
    """How often positions are shuffled."""
    amari_between_halves: Spread | None
    """As of a layer, over starts, of the layer where each start has the most; None where those of a
    layer are not compared."""
    amari_chance: float
    """The same of unrelated components."""
    layers: list[Layer]
