"""The numbers that open the report page."""

from __future__ import annotations

from dataclasses import dataclass

from posenc.conditions.positions import ROTATION, TABLE
from posenc.report.records import Place


@dataclass(frozen=True)
class Headline:
    """A number that opens the page.

    ``place`` has roles in place of names. ``text`` says what it is and claims nothing of its size,
    so that it holds for every study; ``{encoder}`` and so on are names of roles,
    ``{without}`` is what its model lacks when it is told no positions, and ``{[KEY]}`` is another
    number of the same measurement.
    """

    title: str
    place: Place
    text: str


WITHOUT = {
    TABLE: "without position embeddings",
    ROTATION: "without rotation",
    "none": "without positions",
}
"""A model without positions, by how they come into it."""
HEADLINES = (
    Headline(
        "Token cosine, encoder",
        Place("encoder", "reviews", "zero", "similarity", "last.cosine"),
        "Mean cosine between the last hidden states of {encoder} {without} and the intact "
        "ones, on {reviews}; random token pairs of the intact model have "
        "{[encoder.reviews.zero.similarity.last.baseline]}.",
    ),
    Headline(
        "Token cosine, decoder",
        Place("decoder", "reviews", "zero", "similarity", "last.cosine"),
        "Mean cosine between the last hidden states of {decoder} {without} and the intact "
        "ones, on {reviews}; random token pairs of the intact model have "
        "{[decoder.reviews.zero.similarity.last.baseline]}.",
    ),
    Headline(
        "Perplexity without positions",
        Place("decoder", "reviews", "zero", "perplexity", "perplexity"),
        "Corpus perplexity of {decoder} on {reviews} {without}; "
        "the intact model has {[decoder.reviews.intact.perplexity.perplexity]}.",
    ),
    Headline(
        "Recovered by one slope",
        Place("decoder", "reviews", "zero_slope", "conditions", "recovered"),
        "Share of the lost log-perplexity of {decoder} on {reviews} that a mask of the distance "
        "with one slope, chosen on other text, recovers: zero is the model without positions, "
        "one the intact model.",
    ),
    Headline(
        "Recovered by a fitted mask",
        Place("decoder", "reviews", "fitted", "conditions", "recovered"),
        "Share of the lost log-perplexity of {decoder} on {reviews} that a mask of a few "
        "parameters per head recovers, fitted on other text with the model frozen.",
    ),
    Headline(
        "Position, read by a line",
        Place("encoder", "reviews", "intact", "probes", "embedding.ridge"),
        "Mean error, in tokens, of a linear probe that reads the position off the embeddings of "
        "{encoder} on {reviews}; the best constant errs by "
        "{[encoder.reviews.intact.probes.chance]}.",
    ),
    Headline(
        "Read back from a sum",
        Place("encoder", "", "", "readback", "before.exact"),
        "Share of random pairs of a token and a position that are found again from the sum of "
        "their embeddings in {encoder}, without noise.",
    ),
    Headline(
        "Offsets that weights predict",
        Place("", "reviews", "", "lags", "profile_mean"),
        "Rank correlation, over the heads of all models, of the mean offset that weights and "
        "positions alone predict with the one found on {reviews}.",
    ),
)
