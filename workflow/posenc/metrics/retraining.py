"""How many training tokens a start is worth: curves of loss against tokens (row F6)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

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


def reached(value: float, replicates: Floats, confidence: float) -> dict[str, float | None]:
    """A number of tokens with its percentile interval; None for what was not reached.

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
    interval = {"value": value, "low": low, "high": high}
    return {
        name: float(number) if np.isfinite(number) else None for name, number in interval.items()
    }


def worth(
    means: CrossedMeans, tokens: Sequence[int], own: slice, without: slice, intact: slice
) -> dict[str, Any]:
    """How many training tokens the model without rotation needs, in three senses.

    Parameters
    ----------
    means
        Of all curves.
    tokens
        [evaluations]: of the curves.
    own, without, intact
        Columns of the curve whose start is valued, and of the two that it is compared with.

    Returns
    -------
    dict
        ``start``: to reach the loss that the other has before it is trained;
        ``start_above_intact``: the same with the intact model's loss at the same step taken away on
        both sides; ``meets``: to be as good as the other after as many tokens. Each with an
        interval, None for a number that was not reached, and of each seed.
    """
    reach = functools.partial(tokens_to_reach, tokens)
    ways = {
        "start": lambda a, b, c: reach(b, a[..., 0]),
        "start_above_intact": lambda a, b, c: reach(b - c, a[..., 0] - c[..., 0]),
        "meets": lambda a, b, c: reach(b - a, np.zeros(a.shape[:-1])),
    }
    columns = (own, without, intact)
    value, replicates, seeds = (
        [all_of[..., column] for column in columns]
        for all_of in (means.value, means.replicates, means.of_fits)
    )
    return {
        name: {
            **reached(float(way(*value)), way(*replicates), means.confidence),
            "seeds": [float(number) if np.isfinite(number) else None for number in way(*seeds)],
        }
        for name, way in ways.items()
    }
