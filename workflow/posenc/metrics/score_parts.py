"""How much of rotation is a mask: scores as content, mask and interaction (row F2).

z = c + b + r: the content c = qᵀ k / √d_head of queries and keys before rotation; a mask b, the
same for all pairs at a distance (:mod:`posenc.metrics.closed_form`, or a measured mean); and what
is left of the difference that rotation makes, r = qᵀ (R(-δ) - I) k / √d_head - b: how it acts on
content. For the mask in closed form and q = q̄ + q′, k = k̄ + k′,

    r = (q̄ᵀ (R - I) k′ + q′ᵀ (R - I) k̄ + q′ᵀ (R - I) k′) / √d_head,

so that it is 0 where queries and keys do not vary.

The variance of z is the sum of all entries of the covariance matrix of the parts, [3, 3]. The share
of a part is its own variance over that of z; of two parts, both of their covariances. Shares of
parts alone sum to 1 where the parts are uncorrelated, and to more or less where they are not; with
those of pairs they always do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from posenc.metrics.rotary import Floats, Layout, scores

PARTS = ("content", "mask", "interaction")


def score_parts(
    queries: ArrayLike,
    keys: ArrayLike,
    positions: ArrayLike,
    frequencies: ArrayLike,
    mask: ArrayLike,
    layout: Layout = "halves",
) -> Floats:
    """The three parts of the scores of a rotary model.

    Parameters
    ----------
    queries, keys, positions, frequencies, layout
        As of :func:`posenc.metrics.rotary.scores`.
    mask
        [n_heads, tokens, tokens]: b of each pair.

    Returns
    -------
    float64 [3, n_heads, tokens, tokens]: in the order of ``PARTS``; their sum is the scores.
    """
    content = scores(queries, keys, positions, [], layout=layout)
    intact = scores(queries, keys, positions, frequencies, layout=layout)
    return split(intact, content, mask)


def split(scores: ArrayLike, content: ArrayLike, mask: ArrayLike) -> Floats:
    """The three parts of scores, of which two are known.

    Parameters
    ----------
    scores, content, mask
        [n_heads, tokens, tokens] each.

    Returns
    -------
    float64 [3, n_heads, tokens, tokens]: in the order of ``PARTS``.
    """
    z, c, b = (np.asarray(x, np.float64) for x in (scores, content, mask))
    return np.stack([c, b, z - c - b])


def moments(parts: ArrayLike, weights: ArrayLike, *, within_query: bool = False) -> Floats:
    """Weighted sums of products of 1 and the parts over all pairs; documents' sums may be added.

    Parameters
    ----------
    parts
        [3, n_heads, tokens, tokens].
    weights
        [n_heads, tokens, tokens] or [tokens, tokens], not negative: 1 for pairs that see each
        other, or the attention pattern; 0 elsewhere.
    within_query
        Whether each query's own mean is taken out of each part, which softmax does not see.

    Returns
    -------
    float64 [n_heads, 4, 4].
    """
    centred = np.asarray(parts, np.float64)  # [3, n_heads, tokens, tokens]
    weights = np.broadcast_to(np.asarray(weights, np.float64), centred.shape[1:])
    if within_query:
        totals = weights.sum(axis=-1)  # [n_heads, tokens]
        means = (centred * weights).sum(axis=-1) / np.where(totals > 0, totals, 1)
        centred = centred - means[..., None]
    terms = np.concatenate([np.ones_like(centred[:1]), centred])  # [4, n_heads, tokens, tokens]
    terms = np.moveaxis(terms, 0, 1).reshape(len(weights), 4, -1)  # [n_heads, 4, pairs]
    weighted = terms * weights.reshape(len(terms), 1, -1)
    return weighted @ np.swapaxes(terms, -1, -2)


def covariances(moments: ArrayLike) -> Floats:
    """Covariances of the parts, float64 [n_heads, 3, 3], from sums of :func:`moments`."""
    moments = np.asarray(moments, np.float64)  # [n_heads, 4, 4]
    means = moments / moments[..., :1, :1]
    return means[..., 1:, 1:] - means[..., 1:, :1] * means[..., :1, 1:]


def shares(moments: ArrayLike) -> Floats:
    """Shares of the scores' variance.

    Returns
    -------
    float64 [n_heads, 3, 3]: of each part alone on the diagonal; twice an entry beside it is the
    share, of either sign, that two parts have by their covariance. All entries sum to 1. NaN where
    the scores do not vary.
    """
    covariance = covariances(moments)  # [n_heads, 3, 3]
    total = covariance.sum(axis=(-2, -1), keepdims=True)  # [n_heads, 1, 1]
    return np.divide(covariance, total, out=np.full_like(covariance, np.nan), where=total > 0)


def with_mask(moments: ArrayLike, products: ArrayLike) -> Floats:
    """Sums of :func:`moments` with another mask, as those of content, mask and what is then left.

    Parameters
    ----------
    moments
        [..., 4, 4]: not within queries.
    products
        [..., 4]: weighted sums of the other mask, and of its products with the content, with the
        scores and with itself.

    Returns
    -------
    float64 [..., 4, 4]: the content and the scores are the same.
    """
    moments, products = np.asarray(moments, np.float64), np.asarray(products, np.float64)
    known = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 1]])  # 1, content, scores
    of_known = known @ moments @ known.T  # [..., 3, 3]
    column = products[..., :3, None]  # [..., 3, 1]
    square = products[..., 3:, None]  # [..., 1, 1]
    upper = np.concatenate([of_known, column], axis=-1)  # [..., 3, 4]
    lower = np.concatenate([np.swapaxes(column, -1, -2), square], axis=-1)  # [..., 1, 4]
    whole = np.concatenate([upper, lower], axis=-2)  # [..., 4, 4] of 1, content, scores, mask
    parts = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, -1, 1, -1]])
    return parts @ whole @ parts.T


def correlation(moments: ArrayLike, parts: int = 2) -> Floats:
    """Correlation of the scores with content + mask, without the interaction.

    Parameters
    ----------
    moments
        [..., 4, 4].
    parts
        1 for content alone.

    Returns
    -------
    float64 [n_heads]: Pearson's. NaN where either does not vary.
    """
    covariance = covariances(moments)  # [..., 3, 3]
    both = covariance[..., :parts, :parts].sum(axis=(-2, -1))  # [...]
    product = both * covariance.sum(axis=(-2, -1))
    across = covariance[..., :parts, :].sum(axis=(-2, -1))
    root = np.sqrt(np.maximum(product, 0))
    return np.divide(across, root, out=np.full_like(across, np.nan), where=root > 0)


def temperature(moments: ArrayLike) -> Floats:
    """Temperature T of each head: c / T + b is nearest to the scores, up to a constant.

    The least-squares slope of z - b = c + r on c is 1 / T = 1 + cov(c, r) / var(c). With moments
    within queries the constant is one per query, which softmax does not see.

    Returns
    -------
    float64 [n_heads]. Not positive where rotation turns the order of content round.
    """
    covariance = covariances(moments)  # [n_heads, 3, 3]
    content = covariance[..., 0, 0]  # [n_heads]
    return content / (content + covariance[..., 0, 2])
