"""Do two places make pairs of words that one order prefers? Of tables of joint probabilities.

A table says how probable it is that one word stands at a first place and another at a second one.
Two things can make it differ from its transpose: the places take other words, whatever stands at
the other place; or the pair itself has an order. A product of two marginals has the first alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def order_of(logs: ArrayLike) -> dict[str, Floats]:
    """Dependence and order of two places.

    Parameters
    ----------
    logs
        [..., words, words], finite: log P[a, b] in nats, of the word a at the first place and b at
        the second, up to a constant per table; P is scaled to sum to 1.

    Returns
    -------
    float64 [...] each:

    ``repeats``
        Probability that both words are the same.
    ``dependence``
        Mutual information of the two places in nats (Cover and Thomas, 2006, equation 2.28).
    ``order``
        Total variation (Levin et al., 2009, proposition 4.2) between P and its transpose, of pairs
        of different words: 0 where no order is preferred, 1 where each pair has one order alone.
        Of pairs that P draws, (1 + ``order``) / 2 stand in the order that it prefers.
    ``places``
        The same of the product R of the marginals of P, for as many pairs of different words.
    ``interaction``
        The same of P - R, what no product has of order; ``order`` is at most the sum of the two.
    ``divergence``
        Jensen-Shannon divergence (Lin, 1991, section IV) of P and its transpose in nats, of pairs
        of different words: what the order tells to someone who knows the two words, at most log 2.
    ``log_ratio``
        Mean absolute log P[a, b] / P[b, a] in nats, of the pairs of different words that P draws.
    ``additive``
        Share of the mean square of that log ratio which s[a] - s[b] explains, with the best score s
        of each word (least squares, as HodgeRank: Jiang et al., 2011, theorem 3). Log ratios of
        every product of two marginals have that form: it bounds from above what places explain. 1
        where there is no order.

    Raises
    ------
    ValueError
        If there are fewer than two words, or a number is not finite.
    """
    logs = _scaled(logs)  # [..., words, words]
    joint, ratio = np.exp(logs), _ratios(logs)  # [..., words, words]
    first, second = _marginals(logs)  # [..., words, 1], [..., 1, words]
    product = np.exp(first + second)  # [..., words, words]
    repeats = np.trace(joint, axis1=-2, axis2=-1)  # [...]
    different = _different(joint)  # [..., words, words]
    pairs = different.sum(axis=(-2, -1))  # [...]
    return {
        "repeats": repeats,
        "dependence": (joint * (logs - first - second)).sum(axis=(-2, -1)),
        "order": _asymmetry(joint) / pairs,
        "places": _asymmetry(product) / pairs,
        "interaction": _asymmetry(joint - product) / pairs,
        "divergence": np.log(2) + _mean(different, _sigmoid(ratio)),
        "log_ratio": _mean(different, np.abs(ratio)),
        "additive": _additive(different + np.swapaxes(different, -1, -2), ratio),
    }


def likeness(logs: ArrayLike, reference: ArrayLike) -> dict[str, Floats]:
    """How far one table makes the pairs that another one does, in the same orders.

    Parameters
    ----------
    logs, reference
        [..., words, words] each, as :func:`order_of` takes them, of the same words. Pairs of
        different words count as often as ``reference`` draws them, in either order.

    Returns
    -------
    float64 [...] each:

    ``agreement``
        Share of pairs whose preferred order is the same; ties are a half, as is chance.
    ``correlation``
        Of the log ratios of both tables; 0 where a table has no order. Ratios of both orders of a
        pair are each other's opposite, so that their mean is 0.
    ``interaction_correlation``
        The same of the ratios less those of the product of each table's own marginals.
    ``words_lost``, ``order_lost``
        Kullback-Leibler divergence of ``logs`` from ``reference`` in nats per pair of different
        words, in two parts that sum to it by the chain rule (Cover and Thomas, 2006, theorem
        2.5.3): that of which two words they are, and that of their order once the two are known. A
        table that prefers no order loses the ``divergence`` of ``reference``.

    Raises
    ------
    ValueError
        As :func:`order_of`.
    """
    tables = [_scaled(each) for each in (logs, reference)]  # [..., words, words] each
    joint = _different(np.exp(tables[1]))  # [..., words, words]
    weights = joint + np.swapaxes(joint, -1, -2)  # [..., words, words]
    ours, theirs = (_ratios(each) for each in tables)  # [..., words, words]
    own, other = (_ratios(each - sum(_marginals(each))) for each in tables)
    # Of the two words in either order, among pairs of different words.
    ours_words, theirs_words = (_either_order(each) for each in tables)  # [..., words, words]
    same = (1 + np.sign(ours) * np.sign(theirs)) / 2  # [..., words, words]
    return {
        "agreement": _mean(weights, same),
        "correlation": _correlation(weights, ours, theirs),
        "interaction_correlation": _correlation(weights, own, other),
        "words_lost": _mean(joint, theirs_words - ours_words),
        "order_lost": _mean(joint, _sigmoid(theirs) - _sigmoid(ours)),
    }


def _scaled(logs: ArrayLike) -> Floats:
    """Logarithms of a table [..., words, words] that sums to 1."""
    logs = np.asarray(logs, np.float64)  # [..., words, words]
    if logs.shape[-1] < 2 or not np.isfinite(logs).all():
        raise ValueError("a table of pairs has two words at least, and finite logarithms")
    return logs - np.logaddexp.reduce(logs, axis=(-2, -1), keepdims=True)


def _marginals(logs: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the marginals of a table, [..., words, 1] and [..., 1, words]."""
    return (
        np.logaddexp.reduce(logs, axis=-1, keepdims=True),
        np.logaddexp.reduce(logs, axis=-2, keepdims=True),
    )


def _ratios(logs: Floats) -> Floats:
    """A table less its transpose, [..., words, words]."""
    return logs - np.swapaxes(logs, -1, -2)


def _sigmoid(ratio: Floats) -> Floats:
    """Log-probability of an order, given its log ratio to the other one, [..., words, words]."""
    return -np.logaddexp(0, -ratio)


def _either_order(logs: Floats) -> Floats:
    """Log-probability of two words in either order, among pairs of different ones."""
    different = np.where(np.eye(logs.shape[-1]), -np.inf, logs)  # [..., words, words]
    whole = np.logaddexp.reduce(different, axis=(-2, -1), keepdims=True)  # [..., 1, 1]
    return np.logaddexp(logs, np.swapaxes(logs, -1, -2)) - whole


def _different(joint: Floats) -> Floats:
    """A table without its diagonal, [..., words, words]."""
    return joint * (1 - np.eye(joint.shape[-1]))


def _asymmetry(table: Floats) -> Floats:
    """Half the sum of the absolute differences of a table from its transpose, [...]."""
    return np.abs(_ratios(table)).sum(axis=(-2, -1)) / 2


def _mean(weights: Floats, values: Floats) -> Floats:
    """Weighted mean over the pairs of a table, [...]."""
    return (weights * values).sum(axis=(-2, -1)) / weights.sum(axis=(-2, -1))


def _correlation(weights: Floats, ours: Floats, theirs: Floats) -> Floats:
    """Weighted correlation of two numbers with mean 0, [...]."""
    scale = np.sqrt(_mean(weights, ours**2) * _mean(weights, theirs**2))  # [...]
    return np.divide(
        _mean(weights, ours * theirs), scale, out=np.zeros_like(scale), where=scale > 0
    )


def _additive(weights: Floats, ratio: Floats) -> Floats:
    """Share of the weighted square of ``ratio`` that differences of scores explain, [...]."""
    # The normal equations: the graph's Laplacian times the scores is the ratios' divergence.
    laplacian = np.eye(ratio.shape[-1]) * weights.sum(axis=-1, keepdims=True) - weights
    divergence = (weights * ratio).sum(axis=-1, keepdims=True)  # [..., words, 1]
    scores = np.linalg.pinv(laplacian, hermitian=True) @ divergence  # [..., words, 1]
    rest = _mean(weights, (ratio - _ratios(scores)) ** 2)  # [...]
    whole = _mean(weights, ratio**2)  # [...]
    return 1 - np.divide(rest, whole, out=np.zeros_like(whole), where=whole > 0)
