"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, NotRun, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import ASIDE, Exhibit
from posenc.metrics.null_tables import NULLS

if TYPE_CHECKING:
    from posenc.measurements.position_heads.result import Head, PositionScores

PLACED = ("1", "2", "3")
"""Heads that are named, in order."""
DRAWN = ("distance_share", "heads", "nearest")
NULL = ("offset", "distance_share", "wave_share")
WAVE = ("period", "lag", "wave_share")
NEAR = ("head", "offset", "distance_share", *WAVE)
STEEP = ("layer", "head", "deviation", "distance_share", *WAVE)
OF_WAVES = ("period", "lag", "share", "lags", "lags_chance")
POSITION_HEADS = (
    "heads", "distance_share", "distance_share.least", "distance_share.most",
    *(f"near.{place}.{part}" for place in PLACED for part in NEAR),
    "near.heads", "near.tokens",
    *(
        f"null_{null}.{part}" for null in NULLS
        for part in (*DRAWN, *(f"near.{place}.{part}" for place in PLACED for part in NULL))
    ),
    *(f"steep.{place}.{part}" for place in PLACED for part in STEEP),
    *(f"waves.{part}" for part in OF_WAVES), *(f"null_{null}.waves.share" for null in NULLS),
)  # fmt: skip
NO_POSITION = "no head tells positions apart"
DEFINED = Printed(absent=NO_POSITION)


def position_heads(result: PositionScores) -> Facts:
    """How much of the heads' scores a mask by distance explains, and the heads worth a look.

    ``near`` are those of layer 0 whose attention by positions alone is, in the mean, nearest to the
    query; ``steep`` those whose mask by distance tells the most positions apart. For tables that
    know no order (``null_``) the same is given of those near heads, with how many of all heads then
    look near, and the offset of the head of layer 0 that then looks nearest. Waves are those of the
    pair of signals that adds most to a head's score.
    """
    shares = [head.distance_share for head in result.heads if head.distance_share is not None]
    facts: Facts = dict.fromkeys(POSITION_HEADS, NotRun("there are fewer heads"))
    facts["heads"] = Number(len(result.heads))
    for name, of in (("", statistics.median), (".least", min), (".most", max)):
        facts[f"distance_share{name}"] = Number(of(shares)) if shares else NotRun(NO_POSITION)
    near, waves = result.near, result.waves
    facts |= {"near.heads": Number(near.heads), "near.tokens": Number(near.tokens)}
    count = len(PLACED)
    first = dict(zip(PLACED, (head for _, head in result.nearest(count)), strict=False))
    steep = dict(zip(PLACED, result.steepest(count), strict=False))
    for group, parts, heads in (("near", NEAR, first), ("steep", STEEP, steep)):
        for place, head in heads.items():
            facts |= {
                f"{group}.{place}.{part}": entry for part, entry in of_head(head, parts).items()
            }
    facts |= {f"waves.{part}": Number(getattr(waves, part)) for part in OF_WAVES}
    for null, of_all in near.nulls.items():
        for part in DRAWN:
            facts[f"null_{null}.{part}"] = number(getattr(of_all, part), DEFINED)
        for place, head in first.items():
            drawn = head.nulls[null]
            for part, value in zip(
                NULL, (drawn.mean_offset, drawn.distance_share, drawn.wave_share), strict=True
            ):
                facts[f"null_{null}.near.{place}.{part}"] = number(value, DEFINED)
        facts[f"null_{null}.waves.share"] = number(waves.nulls[null], DEFINED)
    return facts


def of_head(head: Head, parts: Sequence[str]) -> Facts:
    """Numbers of one head: those of ``parts``."""
    pair = head.pairs[0]
    numbers = {
        "layer": head.layer,
        "head": head.head,
        "offset": head.profile.mean_offset,
        "deviation": head.deviation,
        "distance_share": head.distance_share,
        "period": 1 / pair.frequency,
        "lag": pair.lag,
        "wave_share": pair.share,
    }
    return {part: number(numbers[part], DEFINED) for part in parts}


WORDS = {
    "heads": "heads",
    "distance_share": "share of the scores that a mask by distance explains",
    "least": "the head with the least",
    "most": "the head with the most",
    "near": "heads of layer 0 that look nearest, in order",
    "steep": "heads whose mask is the steepest, in order",
    "waves": "leading pairs of waves, over heads",
    "period": "period of the leading pair (tokens)",
    "lag": "lag of the leading pair (tokens)",
    "wave_share": "share of one frequency in the leading pair",
    "share": "median share of one frequency",
    "lags": "heads with a lag of a few tokens",
    "lags_chance": "the same with phases at random",
    "offset": "mean offset",
    "deviation": "standard deviation of its scores (nats)",
    "layer": "its layer",
    "head": "its number",
}
QUANTITIES = quantities(__package__, "PositionScores", {}, position_heads, POSITION_HEADS, WORDS)
FIGURE = Exhibit(
    "C3 relative attention by weights",
    ("position_heads",),
    ASIDE,
    height=8.2,
    caption="What each head makes of positions alone: the function of the distance that is "
    "nearest to the scores of position against position, in standard deviations of the head's "
    "scores within a query. The larger the share of the scores that a curve explains, the "
    "darker it is. Coloured are the three steepest, and the three of the first layer whose mean "
    "offset is nearest to zero, with their attention by offset below; in an encoder, such a head "
    "may look both ways alike. Of the tables and models whose query and key "
    "maps are there, the one with the most heads is shown.",
    alt="Small charts, a row for each layer and a column for each head: bias against the "
    "distance back from query to key. Below, attention by offset of three heads.",
)
