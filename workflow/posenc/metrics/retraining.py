"""How many training tokens a start is worth: curves of loss against tokens (row F6)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.crossed import CrossedMeans

Floats = NDArray[np.float64]


def tokens_to_reach(tokens: ArrayLike, losses: ArrayLike, target: ArrayLike) -> Floats:
    """Training tokens after which a loss is first as low as a target.

    Between two evaluations the loss is taken as linear in the logarithm of the tokens; before the
    first training step, where there is no logarithm, as linear in the tokens.

    Parameters
    ----------
    tokens
        [points]: tokens of the evaluations, rising; the first is 0.
    losses
        [..., points]: losses there, in nats per token.
    target
        [...]: the losses to be reached.

    Returns
    -------
    float64 [...]; infinite where no evaluation is as low.

    Examples
    --------
    >>> float(tokens_to_reach([0, 100, 10_000], [5.0, 4.0, 2.0], 3.0))
    1000.0
    """
    tokens = np.asarray(tokens, np.float64)  # [points]
    losses = np.asarray(losses, np.float64)  # [..., points]
    target = np.asarray(target, np.float64)[..., None]  # [..., 1]
    is_low = losses <= target  # [..., points]
    after = is_low.argmax(axis=-1)[..., None]  # [..., 1], the first that is
    before = np.maximum(after - 1, 0)  # [..., 1]
    high, low = (np.take_along_axis(losses, place, -1) for place in (before, after))  # [..., 1]
    begin, end = tokens[before], tokens[after]  # [..., 1] each
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (high - target) / (high - low)  # [..., 1]
        on_logarithm = begin * (end / begin) ** share  # [..., 1]
        crossing = np.where(begin > 0, on_logarithm, share * end)  # [..., 1]
    crossing = np.where(after > 0, crossing, 0.0)  # [..., 1]
    return np.where(is_low.any(axis=-1), crossing[..., 0], np.inf)


class TokensNeeded(NamedTuple):
    """Training tokens until a loss is reached; None for what was not reached.

    Attributes
    ----------
    value, low, high
        Of the mean over seeds, with its interval.
    seeds
        [seeds]: of each.
    """

    value: float | None
    low: float | None
    high: float | None
    seeds: list[float | None]


class Worth(NamedTuple):
    """How many training tokens the model without rotation needs, in three senses.

    Attributes
    ----------
    start
        To reach the loss that the other has before it is trained.
    start_above_intact
        The same with the intact model's loss at the same step taken away on both sides.
    meets
        To be as good as the other after as many tokens.
    """

    start: TokensNeeded
    start_above_intact: TokensNeeded
    meets: TokensNeeded


def reached(
    value: float, replicates: Floats, confidence: float
) -> tuple[float | None, float | None, float | None]:
    """A number of tokens and the ends of its percentile interval; None for what was not reached.

    Parameters
    ----------
    value
        In tokens; infinite where it was not reached.
    replicates
        [samples], likewise.
    confidence
        Share of replicates between the bounds.
    """
    tail = (1 - confidence) / 2
    # Without a mean of neighbours, which of an infinite one would be none.
    low, high = np.quantile(replicates, [tail, 1 - tail], method="inverted_cdf")
    return _finite(value), _finite(low), _finite(high)


def _finite(tokens: float) -> float | None:
    return float(tokens) if np.isfinite(tokens) else None


def worth(
    means: CrossedMeans, tokens: Sequence[int], own: slice, without: slice, intact: slice
) -> Worth:
    """How many training tokens a start is worth.

    Parameters
    ----------
    means
        Of all curves.
    tokens
        [evaluations]: of the curves.
    own, without, intact
        Columns of the curve whose start is valued, and of the two that it is compared with.
    """
    reach = functools.partial(tokens_to_reach, tokens)
    columns = (own, without, intact)
    value, replicates, seeds = (
        [all_of[..., column] for column in columns]
        for all_of in (means.value, means.replicates, means.of_fits)
    )

    def needed(way: Callable[[Floats, Floats, Floats], Floats]) -> TokensNeeded:
        """By a function of three curves, [..., evaluations] each."""
        interval = reached(float(way(*value)), way(*replicates), means.confidence)
        return TokensNeeded(*interval, [_finite(number) for number in way(*seeds)])

    return Worth(
        start=needed(lambda a, b, c: reach(b, a[..., 0])),
        start_above_intact=needed(lambda a, b, c: reach(b - c, a[..., 0] - c[..., 0])),
        meets=needed(lambda a, b, c: reach(b - a, np.zeros(a.shape[:-1]))),
    )
