"""What it finds out about a model on a data set."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class OverFits(Interval):
    """A mean over all fits, with an interval over documents, texts and seeds; and its spread."""

    between_draws: float
    """Standard deviation between the texts that are fitted to."""
    within_draws: float
    """Standard deviation between fits to one text."""
    fits: list[list[float]]
    """[draws, seeds]: of each fit."""

    @property
    def least(self) -> float:
        """Of all fits."""
        return min(min(draw) for draw in self.fits)

    @property
    def most(self) -> float:
        """Of all fits."""
        return max(max(draw) for draw in self.fits)


class Losses(Part):
    """Mean losses in nats per token: of the fits, and of the models that nothing is fitted on."""

    fitted: Interval
    """The mask on the model without positions."""
    fitted_intact: Interval
    """The same parameters on the intact model."""
    placebo: Interval
    """As many parameters that know no order, on the model without positions."""
    placebo_intact: Interval
    """The placebo on the intact model."""
    intact: Interval
    without: Interval
    """Without positions."""


class Refitted(OfDocuments):
    """What a mask recovers that is fitted to several texts with several seeds.

    Tokens are those that are predicted. Shares are of what is lost without positions; None where
    nothing is lost.
    """

    draws: int
    """Texts that are fitted to."""
    seeds: int
    """Fits to each text."""
    fitting: int
    """Documents of a text."""
    nll: Losses
    lost: Interval
    """Loss without positions, minus the intact model's, in nats per token."""
    interaction: OverFits
    """Gain on the model without positions, less the gain on the intact one, in nats per token."""
    interaction_share: OverFits | None
    placebo_interaction: OverFits
    """The same of the placebo."""
    placebo_interaction_share: OverFits | None
    beyond_placebo: OverFits
    """The first less the second."""
    beyond_placebo_share: OverFits | None
    recovered: OverFits | None
    """Share of what is lost that the fit recovers, adaptation to text included."""
