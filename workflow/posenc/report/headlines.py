"""What opens the report page: findings with their controls, or numbers where there is none."""

from __future__ import annotations

from dataclasses import dataclass

from posenc.conditions.positions import ROTATION, TABLE
from posenc.report.records import Place


@dataclass(frozen=True)
class Headline:
    """A number that opens the page of a study that measures no finding.

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
)


@dataclass(frozen=True)
class Finding:
    """A recovered share that is told with its control.

    Attributes
    ----------
    title
        What is looked at; it claims nothing.
    place, control
        The share and that of its control, with roles in place of names.
    names
        What the two stand for where they are drawn.
    said
        Its sentence: ``{0}`` is the share, ``{1}`` that of the control, ``{2}`` the model and
        ``{3}`` the data set.
    less, more, alike
        How the sentence ends where the interval of the control lies below that of the share, above
        it, or overlaps with it.
    figure
        The one that shows it.
    """

    title: str
    place: Place
    control: Place
    names: tuple[str, str]
    said: str
    less: str
    more: str
    alike: str
    figure: str

    @property
    def sentences(self) -> tuple[str, str, str]:
        """All that can be said of it: the control is less, more, or not distinguishable."""
        return (self.said + self.less, self.said + self.more, self.said + self.alike)


def recovered(condition: str) -> Place:
    """The recovered share of the rotary decoder on reviews."""
    return Place("rotary_decoder", "reviews", condition, "conditions", "recovered")


def adaptation(quantity: str) -> Place:
    """A share of what the fitted mask recovers in the decoder with a table, on reviews."""
    return Place("table_decoder", "reviews", "zero_fitted", "adaptation", quantity)


FINDINGS = (
    Finding(
        "A mask in closed form, in place of rotation",
        recovered("zero_closed"),
        recovered("placebo_heads"),
        ("own masks", "masks of other heads"),
        "A mask in closed form, computed without a fit, recovers {0} of what {2} loses on {3} "
        "without rotation; ",
        "masks of other heads recover less, {1}.",
        "masks of other heads recover more, {1}.",
        "masks of other heads recover {1}, which is not distinguishable from it.",
        "rotary_masks",
    ),
    Finding(
        "The mask and the other terms of first order",
        recovered("first_order"),
        recovered("first_order_heads"),
        ("own means", "means of other heads"),
        "The mask and two more terms, one of the key alone and one of the query alone, recover {0} "
        "of what {2} loses on {3} without rotation; ",
        "with the mean vectors of other heads they recover less, {1}.",
        "with the mean vectors of other heads they recover more, {1}.",
        "with the mean vectors of other heads they recover {1}, which is not distinguishable "
        "from it.",
        "rotary_masks",
    ),
    Finding(
        "A fitted mask, in place of a table of positions",
        adaptation("interaction_share"),
        adaptation("placebo_interaction_share"),
        ("fitted mask", "fit without order"),
        "With adaptation to the text subtracted, a fitted mask recovers {0} of what {2} loses on "
        "{3} without position embeddings; ",
        "a fit that knows no order recovers less, {1}.",
        "a fit that knows no order recovers more, {1}.",
        "a fit that knows no order recovers {1}, which is not distinguishable from it.",
        "recovered_share",
    ),
)
"""In this order; a page has those that its study measures."""
