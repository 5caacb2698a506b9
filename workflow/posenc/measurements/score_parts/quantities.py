"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.score_parts.result import Decomposition

SCORES = ("correlation", "content_correlation", "content", "mask", "interaction")
PLACEBOS = ("placebo_heads", "placebo_layers")
SCORE_PARTS = (
    "r2", "shuffled", "first_key", "high_share", "one_document",
    *(f"{weights}.{part}" for weights in ("pairs", "attention") for part in (*SCORES, *PLACEBOS)),
)  # fmt: skip


NO_POSITION = Printed(absent="position adds nothing to the scores")
NO_CURVE = Printed(absent="no other head to take a curve from")
NO_MASK = Printed(absent="no other head to take a mask from")


def score_parts(result: Decomposition) -> Facts:
    """How well the closed form predicts, and parts of the scores' variance by kind of weights."""
    r2 = result.r2
    facts: Facts = {
        "r2": number(r2.median, NO_POSITION),
        "shuffled": number(r2.shuffled, NO_CURVE),
        "first_key": number(r2.first_key, NO_POSITION),
        "high_share": number(r2.high_share),
        "one_document": number(r2.learning[0].median, NO_POSITION),
    }
    for shares in result.shares:
        if not shares.within_query:
            parts = {
                "correlation": number(shares.correlation),
                "content_correlation": number(shares.content_correlation),
                "content": number(shares.all.content),
                "mask": number(shares.all.mask),
                "interaction": number(shares.all.interaction),
                "placebo_heads": number(shares.placebo.get("heads"), NO_MASK),
                "placebo_layers": number(shares.placebo.get("layers"), NO_MASK),
            }
            facts |= {f"{shares.weights}.{name}": entry for name, entry in parts.items()}
    return facts


WORDS = {
    "r2": "R² of the mask in closed form for the measured difference by distance",
    "shuffled": "the same with curves shuffled over heads",
    "first_key": "the same of the first key",
    "one_document": "the same, means of one document",
    "high_share": "share of heads with an R² of 0.95 or more",
    "pairs": "all pairs",
    "attention": "weighted by attention",
    "correlation": "correlation of the scores with content + mask",
    "content": "share of the scores' variance, content",
    "mask": "share of the scores' variance, mask",
    "interaction": "share of the scores' variance, interaction",
}
QUANTITIES = quantities(__package__, "Decomposition", {}, score_parts, SCORE_PARTS, WORDS)
FIGURE = Exhibit(
    "F2 how much of position is a mask?",
    ("score_parts",),
    height=2.4,
    caption="Share of the variance of attention scores, over all pairs, of the content alone, "
    "of the mask in closed form, and of what position does beyond it; mean over the heads of "
    "a layer, with its interval. With what covariances of two of them add, which is drawn as "
    "one line, they make up the whole.",
    alt="Line charts, one for each model: share of the variance of scores against layer, for "
    "content, mask, interaction and covariances.",
    quantities=("*.pairs.*", "*.attention.*"),
)
