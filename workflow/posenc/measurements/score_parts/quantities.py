"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

SCORES = ("correlation", "content_correlation", "content", "mask", "interaction")
PLACEBOS = ("placebo_heads", "placebo_layers")
SCORE_PARTS = (
    "r2", "shuffled", "first_key", "high_share", "one_document",
    *(f"{weights}.{part}" for weights in ("pairs", "attention") for part in (*SCORES, *PLACEBOS)),
)  # fmt: skip


def score_parts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """How well the closed form predicts, and parts of the scores' variance by kind of weights."""
    r2, same = measurement["r2"], "position adds nothing to the scores"
    facts = {
        "r2": estimate(r2["median"], same),
        "shuffled": estimate(r2["shuffled"], "no other head to take a curve from"),
        "first_key": estimate(r2["first_key"], same),
        "high_share": estimate(r2["high_share"]),
        "one_document": estimate(r2["learning"][0]["median"], same),
    }
    for shares in measurement["shares"]:
        if not shares["within_query"]:
            weights, parts = shares["weights"], {**shares, **shares["all"]}
            facts |= {f"{weights}.{name}": estimate(parts[name]) for name in SCORES}
            for name in PLACEBOS:
                value = shares["placebo"].get(name.removeprefix("placebo_"))
                facts[f"{weights}.{name}"] = estimate(value, "no other head to take a mask from")
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
QUANTITIES = Quantities(read=score_parts, names=SCORE_PARTS, words=WORDS)
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
