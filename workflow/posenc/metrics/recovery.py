"""What conditions cost and recover, all on the same resampled documents (rows A1, A4, A5)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, Seed, percentile_interval, ratio_replicates


class PairedMeans:
    """Means over tokens of several conditions, with replicates on the same resampled documents.

    Any function of the means then has a paired interval: what is common to the conditions in a
    resample cancels.

    Parameters
    ----------
    sums
        [documents, k]: sums over each document's tokens under k conditions, such as nll in nats.
    tokens
        [documents]: tokens of each document.
    samples, confidence, seed
        Of the percentile bootstrap over documents
        (:func:`posenc.metrics.bootstrap.ratio_replicates`).

    Raises
    ------
    ValueError
        As :func:`posenc.metrics.bootstrap.ratio_replicates`.
    """

    def __init__(
        self, sums: ArrayLike, tokens: ArrayLike, *, samples: int, confidence: float, seed: Seed
    ) -> None:
        sums, tokens = np.asarray(sums, np.float64), np.asarray(tokens, np.float64)
        self.value: NDArray[np.float64] = sums.sum(axis=0) / tokens.sum()  # [k]
        self.replicates = ratio_replicates(sums, tokens, samples, seed)  # [samples, k]
        self.confidence = confidence

    def of(self, function: Callable[..., NDArray[np.float64]], *columns: int) -> Estimate:
        """A function of the means of some conditions, such as ``lambda a, b: a - b``."""
        return percentile_interval(
            function(*(self.value[column] for column in columns)),
            function(*(self.replicates[:, column] for column in columns)),
            self.confidence,
        )


def recovered(
    condition: NDArray[np.float64], without: NDArray[np.float64], intact: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of the lost log-perplexity that a condition recovers.

    Parameters
    ----------
    condition, without, intact
        Mean nll in nats per token: of the condition, of the model without positions, of the intact
        model.

    Returns
    -------
    (without - condition) / (without - intact): 0 for the model without positions, 1 for the intact
    one, above 1 for a condition that is better than it.

    Examples
    --------
    >>> float(recovered(np.array(3.5), np.array(4.0), np.array(3.0)))
    0.5
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return (without - condition) / (without - intact)


def recovered_perplexity(
    condition: NDArray[np.float64], without: NDArray[np.float64], intact: NDArray[np.float64]
) -> NDArray[np.float64]:
    """As :func:`recovered`, of the perplexity instead of its logarithm."""
    return recovered(np.exp(condition), np.exp(without), np.exp(intact))


def is_lost(means: PairedMeans, intact: int, without: int) -> bool:
    """Whether anything is lost without positions: a share of a loss that is not there is nothing.

    Parameters
    ----------
    means
        Mean nll in nats per token of all conditions.
    intact, without
        Columns of the intact model, and of the model without positions.
    """
    return bool(means.of(np.subtract, without, intact).low > 0)


class PairedLosses(NamedTuple):
    """A condition's loss, and what follows from it; None for what lacks a comparison.

    Attributes
    ----------
    nll_per_token
        In nats.
    perplexity
        Its exponential.
    delta_nll, delta_nll_without
        Less the intact model's, and less that of the model without positions.
    recovered, recovered_perplexity
        Shares of what is lost without positions; None where nothing is lost, too.
    """

    nll_per_token: Estimate
    perplexity: Estimate
    delta_nll: Estimate | None
    delta_nll_without: Estimate | None
    recovered: Estimate | None
    recovered_perplexity: Estimate | None


def paired_losses(
    means: PairedMeans, column: int, intact: int | None, without: int | None
) -> PairedLosses:
    """A condition's nll and what follows from it, paired with two others by document.

    Parameters
    ----------
    means
        Mean nll in nats per token of all conditions.
    column, intact, without
        Columns of the condition, of the intact model, and of the model without positions; what
        needs one that is None is None.
    """

    def less(other: int | None) -> Estimate | None:
        return None if other is None else means.of(np.subtract, column, other)

    shares: tuple[Estimate | None, Estimate | None] = (None, None)
    if intact is not None and without is not None and is_lost(means, intact, without):
        columns = (column, without, intact)
        shares = means.of(recovered, *columns), means.of(recovered_perplexity, *columns)
    return PairedLosses(
        means.of(lambda own: own, column),
        means.of(np.exp, column),
        less(intact),
        less(without),
        *shares,
    )


def interaction(
    fitted: NDArray[np.float64],
    without: NDArray[np.float64],
    fitted_intact: NDArray[np.float64],
    intact: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What a fit gives a model without positions beyond what it gives the intact one, in nats.

    A fit on text adapts a model to the text as well, whatever was taken from it. Of the 2 x 2 of
    {intact, without} and {unfitted, fitted}, the interaction is what adaptation does not explain.

    Parameters
    ----------
    fitted, without, fitted_intact, intact
        Mean nll in nats per token: of the model without positions, fitted and not; of the intact
        model, fitted the same way and not.

    Returns
    -------
    (without - fitted) - (intact - fitted_intact).

    Examples
    --------
    >>> float(interaction(np.array(3.5), np.array(4.0), np.array(2.75), np.array(3.0)))
    0.25
    """
    return (without - fitted) - (intact - fitted_intact)


INTERACTIONS = {
    "interaction": ("fitted", "without", "fitted_intact", "intact"),
    "placebo_interaction": ("placebo", "without", "placebo_intact", "intact"),
    # The one less the other: the unfitted models cancel.
    "beyond_placebo": ("fitted", "placebo", "fitted_intact", "placebo_intact"),
}
"""By what is left after adaptation, the roles of the conditions that :func:`interaction` takes."""


class Adaptation(NamedTuple):
    """What of a fitted mask's gain is position, in nats per token and as a share of what is lost.

    Attributes
    ----------
    interaction, placebo_interaction, beyond_placebo
        As :data:`INTERACTIONS` has them.
    interaction_share, placebo_interaction_share, beyond_placebo_share
        The same over what is lost without positions; None where nothing is lost.
    """

    interaction: Estimate
    interaction_share: Estimate | None
    placebo_interaction: Estimate
    placebo_interaction_share: Estimate | None
    beyond_placebo: Estimate
    beyond_placebo_share: Estimate | None


def adaptation(means: PairedMeans, **columns: int) -> Adaptation:
    """What of a fitted mask's gain is position: its interaction, and that beyond a placebo's.

    Parameters
    ----------
    means
        Mean nll in nats per token of all conditions.
    columns
        By the roles of ``INTERACTIONS``, columns of the conditions: the fit and its placebo, each
        on the model without positions and on the intact one, and the two unfitted.
    """
    without, intact = columns["without"], columns["intact"]
    has_lost = is_lost(means, intact, without)

    def gain(name: str) -> tuple[Estimate, Estimate | None]:
        """By a name of ``INTERACTIONS``: in nats per token, and as a share."""
        own = [columns[role] for role in INTERACTIONS[name]]
        share = means.of(_share, *own, without, intact) if has_lost else None
        return means.of(interaction, *own), share

    return Adaptation(*gain("interaction"), *gain("placebo_interaction"), *gain("beyond_placebo"))


def _share(*losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """An interaction, of four losses, over what is lost, of the last two."""
    *four, without, intact = losses
    return interaction(*four) / (without - intact)


def by_bucket(
    losses: ArrayLike, bucket: int, *, samples: int, confidence: float, seed: Seed
) -> list[tuple[int, int, Estimate]]:
    """Mean loss by position, in buckets of equal size; the last one may be smaller.

    Parameters
    ----------
    losses, bucket
        [documents, tokens]: nll of each token, nats; and the tokens of a bucket.
    samples, confidence, seed
        Of the bootstrap over documents.

    Returns
    -------
    For each bucket its first token, the one after its last, and the mean nll per token.
    """
    bucket_means, edges = _bucket_means(losses, bucket)  # [documents, buckets], [buckets + 1]
    means = PairedMeans(
        bucket_means, np.ones(len(bucket_means)), samples=samples, confidence=confidence, seed=seed
    )
    return [
        (int(begin), int(end), means.of(lambda own: own, k))
        for k, (begin, end) in enumerate(itertools.pairwise(edges))
    ]


def recovered_by_bucket(
    losses: tuple[ArrayLike, ArrayLike, ArrayLike],
    bucket: int,
    *,
    samples: int,
    confidence: float,
    seed: Seed,
) -> list[Estimate | None]:
    """Share of the loss without positions that a condition recovers, by position.

    Parameters
    ----------
    losses
        [documents, tokens] each, nll of each token in nats: under the condition, without positions,
        and of the intact model.
    bucket, samples, confidence, seed
        As :func:`by_bucket`.

    Returns
    -------
    For each bucket the share with its interval over documents; None where nothing is lost.
    """
    of = [_bucket_means(nll, bucket)[0] for nll in losses]  # 3 x [documents, buckets]
    shares = []
    for columns in zip(*(nll.T for nll in of), strict=True):  # 3 x [documents]
        sums = np.stack(columns, axis=1)  # [documents, 3]
        means = PairedMeans(
            sums, np.ones(len(sums)), samples=samples, confidence=confidence, seed=seed
        )
        has_lost = is_lost(means, 2, 1)
        shares.append(means.of(recovered, 0, 1, 2) if has_lost else None)
    return shares


def _bucket_means(losses: ArrayLike, bucket: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Mean loss of each document in each bucket, and where buckets begin and the last ends."""
    losses = np.asarray(losses, np.float64)  # [documents, tokens]
    edges = np.arange(0, losses.shape[1], bucket)  # [buckets]
    ends = np.append(edges, losses.shape[1])  # [buckets + 1]
    return np.add.reduceat(losses, edges, axis=1) / np.diff(ends), ends
