"""What it finds out about the heads that read a table of positions.

Scores are of position against position, nats. A null is of tables that know no order: ``shuffled``
rows, or ``gaussian`` ones; its spreads are over draws, and None where a draw defines nothing.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from posenc.artifacts.results import Part, Result, Spread
from posenc.measurements.relative_attention.result import Pair, Profile


class Distances(Part):
    """The mask by distance that is nearest to the scores of a head."""

    begin: int = Field(alias="from")
    """The least distance, of query minus key."""
    bias: list[float]
    """By distance from there on, nats, mean 0 over all pairs, [distances]."""


class HeadScores(Part):
    """What one head makes of positions."""

    layer: int
    head: int
    predicted_lag: int
    """Offset, of key minus query, where the score is highest."""
    profile: Profile
    pairs: list[Pair]
    """Pairs of signals that contribute most, in falling order."""
    pairs_share: float
    """Share of these pairs in what all pairs contribute."""
    deviation: float
    """Standard deviation of the scores within a query, nats."""
    distance_share: float | None
    """Share of their variance that the mask by distance explains; None where positions are not told
    apart."""
    first_score: float
    """How much more the first key gets than the mask says, nats."""
    first_mass: float
    """Share of attention on the first key."""
    distances: Distances


class HeadNull(Part):
    """The same head with tables that know no order."""

    mean_offset: Spread | None
    """Of its attention, tokens."""
    distance_share: Spread | None
    wave_share: Spread | None
    """Share of one frequency in the pair of signals that contributes most."""
    mass: list[float | None]
    """Its attention by offset, mean over draws, [2 offsets + 1]."""


class Head(HeadScores):
    """A head, and its nulls."""

    nulls: dict[str, HeadNull]
    """By kind of null."""


class NearNull(Part):
    """The heads that look near, with tables that know no order."""

    heads: Spread | None
    nearest: Spread | None
    distance_share: Spread | None
    """Median over heads."""


class NearHeads(Part):
    """The heads whose attention is near the query in the mean."""

    tokens: int
    """How far at most."""
    heads: int
    """How many there are."""
    nearest: float | None
    """Mean offset of the head of the first layer that looks nearest."""
    nulls: dict[str, NearNull]
    """By kind of null."""


class LeadingPairs(Part):
    """The pair of signals of each head that contributes most, over heads."""

    period: float
    """Median, tokens."""
    lag: float
    """Median, tokens."""
    share: float
    """Median share of one frequency."""
    lags: int
    """Heads with a lag of at most as many tokens as near heads look."""
    lags_chance: float
    """The same with phases at random."""
    nulls: dict[str, Spread | None]
    """By kind of null, of ``share``."""


class PositionScores(Result):
    """What heads make of positions alone."""

    is_causal: bool
    n_layers: int
    n_heads: int
    rows: int
    """Positions that the heads are given."""
    input: str
    """What stands for the input of a block."""
    uniform: list[float | None]
    """Attention by offset of a uniform pattern, [2 offsets + 1]."""
    near: NearHeads
    waves: LeadingPairs
    heads: list[Head]
    """Of the first layer, then of the next one."""

    def steepest(self, count: int) -> list[Head]:
        """At most so many heads that a mask by distance tells the most positions apart for."""

        def explained(head: Head) -> float:
            """Standard deviation of what the distance explains, nats."""
            return head.deviation * (head.distance_share or 0.0) ** 0.5

        return sorted(self.heads, key=explained, reverse=True)[:count]

    def nearest(self, count: int) -> list[tuple[float, Head]]:
        """At most so many heads of the first layer that look, in the mean, nearest to the query.

        Returns
        -------
        Of each its mean offset and itself; a head without one is left out.
        """
        offsets = [(head.profile.mean_offset, head) for head in self.heads if head.layer == 0]
        known = [(offset, head) for offset, head in offsets if offset is not None]
        return sorted(known, key=lambda pair: abs(pair[0]))[:count]


class NoHeads(Result):
    """Why a table has no heads: nothing is known that reads it."""

    status: Literal["not run"]
    reason: str
    heads: list[Head]
    """None."""
