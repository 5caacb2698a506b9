"""Where attention heads look: mass by offset between query and key, and types of heads.

An offset is the position of the key minus that of the query: the previous token has -1. Clark et
al. (2019), https://aclanthology.org/W19-4828, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.patterns import uniform_pattern

Floats = NDArray[np.float64]

NAMED_MASS = 0.2
"""From this mass at one place on, a type of heads has the name of the place."""
_NAMES = {-1: "previous token", 0: "self", 1: "next token"}
_ORDER = (
    "previous token", "next token", "self", "offset", "first token", "special token", "near",
    "broad",
)  # fmt: skip


def layout(offsets: int) -> dict[str, slice]:
    """Columns of the arrays of masses.

    Parameters
    ----------
    offsets
        Half the window.

    Returns
    -------
    dict
        ``mass``: of all keys, from -offsets to +offsets, then ``before`` and ``after``: beyond the
        window; these sum to 1. ``first``: of the first token; ``special``: of the other special
        tokens; ``text``, ``text_before``, ``text_after``: of all other keys. From ``first`` on the
        columns sum to 1, too.
    """
    sizes = {
        "mass": 2 * offsets + 1, "before": 1, "after": 1, "first": 1, "special": 1,
        "text": 2 * offsets + 1, "text_before": 1, "text_after": 1,
    }  # fmt: skip
    ends = np.cumsum(list(sizes.values())).tolist()
    return {
        name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def mass_by_offset(pattern: ArrayLike, offsets: int, special: ArrayLike | None = None) -> Floats:
    """Attention mass by offset, summed over the queries of a document.

    m(t) = Σ_i p_(i, i+t), over the queries i for which there is a key i+t. Divided by the number of
    all queries, masses of all offsets sum to 1. Many heads rest on the first token or on a special
    one, wherever the query is, so the mass of the other keys, the text, is summed apart.

    Parameters
    ----------
    pattern
        [n_heads, tokens, tokens]: query, key.
    offsets
        t from -offsets to +offsets.
    special
        bool [tokens]: which were added by the tokenizer; None for none.

    Returns
    -------
    float64 [n_heads, columns], see :func:`layout`; each of the sums to 1 is one to ``tokens``.
    """
    pattern = np.asarray(pattern)  # [n_heads, tokens, tokens]
    n_heads, tokens, _ = pattern.shape
    special = np.zeros(tokens, bool) if special is None else np.asarray(special, bool)  # [tokens]
    columns, size = layout(offsets), 2 * offsets + 1
    mass = np.zeros((n_heads, columns["text_after"].stop))
    # An offset as long as the document has no diagonal.
    for t in range(max(-offsets, 1 - tokens), min(offsets, tokens - 1) + 1):
        mass[:, t + offsets] = np.diagonal(pattern, t, 1, 2).sum(axis=-1, dtype=np.float64)
    offset = np.arange(tokens) - np.arange(tokens)[:, None]  # [query, key]
    beyond = np.stack([offset < -offsets, offset > offsets]).reshape(2, -1)  # [2, query * key]
    if beyond.any():
        flat = pattern.reshape(n_heads, -1)  # [n_heads, query * key]
        mass[:, size : size + 2] = flat @ beyond.T.astype(pattern.dtype)
    by_key = pattern.sum(axis=1, dtype=np.float64)  # [n_heads, key]
    others = np.flatnonzero(special[1:]) + 1  # [special tokens but the first]
    mass[:, columns["first"]] = by_key[:, :1]
    mass[:, columns["special"]] = by_key[:, others].sum(axis=1, keepdims=True)
    text = mass[:, columns["text"].start :]  # [n_heads, size + 2], a view
    text[:] = mass[:, : size + 2]
    for key in (0, *others):
        where = offset[:, key]  # [query]
        place = np.select([where < -offsets, where > offsets], [size, size + 1], where + offsets)
        # Beyond the window, several queries share a column.
        weights = pattern[:, :, key].astype(np.float64)  # [n_heads, query]
        np.subtract.at(text.T, place, weights.T)
    # What is subtracted was rounded differently.
    np.maximum(text, 0, out=text)
    return mass


def uniform_by_offset(
    tokens: int, offsets: int, causal: bool, special: ArrayLike | None = None
) -> Floats:
    """As :func:`mass_by_offset`, for a head that gives all allowed keys the same.

    Parameters
    ----------
    tokens
        Of the document.
    offsets, special
        As :func:`mass_by_offset`.
    causal
        Whether later keys are masked.

    Returns
    -------
    float64 [columns].
    """
    pattern = uniform_pattern(tokens, causal=causal)  # [query, key]
    return mass_by_offset(pattern[None], offsets, special)[0]


def peak_offset(values: ArrayLike) -> NDArray[np.int64]:
    """The offset with the highest value; of equal ones that next to 0, before it sooner than after.

    Parameters
    ----------
    values
        [..., 2 offsets + 1]: from -offsets to +offsets; NaN where a key is masked.

    Returns
    -------
    int64 [...].

    Examples
    --------
    >>> int(peak_offset([0.1, 0.7, 0.1, 0.7, 0.0]))
    -1
    """
    values = np.asarray(values, np.float64)  # [..., 2 offsets + 1]
    offset = np.arange(values.shape[-1]) - values.shape[-1] // 2  # [2 offsets + 1]
    order = np.lexsort((offset, np.abs(offset)))  # [2 offsets + 1]
    ranked = np.where(np.isnan(values), -np.inf, values)[..., order]
    return offset[order][ranked.argmax(axis=-1)]


def mean_offset(mass: ArrayLike) -> Floats:
    """Mean offset within the window: Σ_t t m(t) / Σ_t m(t).

    Parameters
    ----------
    mass
        [..., 2 offsets + 1]: from -offsets to +offsets.

    Returns
    -------
    float64 [...]; NaN where there is no mass within the window.
    """
    mass = np.asarray(mass, np.float64)  # [..., 2 offsets + 1]
    offset = np.arange(mass.shape[-1]) - mass.shape[-1] // 2  # [2 offsets + 1]
    total = mass.sum(axis=-1)
    return np.divide(mass @ offset, total, out=np.full(total.shape, np.nan), where=total > 0)


def excess_over_uniform(mass: ArrayLike, uniform: ArrayLike) -> Floats:
    """How far mass at an offset is above a uniform pattern with as much mass within the window.

    m(t) - u(t) Σ m / Σ u. The nearer an offset is to 0, the more queries have a key there, and the
    more mass a head without any preference has.

    Parameters
    ----------
    mass
        [..., 2 offsets + 1]: from -offsets to +offsets.
    uniform
        [..., 2 offsets + 1]: that of a uniform pattern.

    Returns
    -------
    float64 [..., 2 offsets + 1]; NaN where no query has a key that it may attend to.

    Examples
    --------
    >>> excess_over_uniform([0.4, 0.1, 0.0], [0.3, 0.2, 0.0]).round(12).tolist()
    [0.1, -0.1, nan]
    """
    mass, uniform = np.asarray(mass, np.float64), np.asarray(uniform, np.float64)
    share = mass.sum(axis=-1, keepdims=True) / uniform.sum(axis=-1, keepdims=True)
    return np.where(uniform > 0, mass - uniform * share, np.nan)


def preference(mass: ArrayLike, uniform: ArrayLike) -> Floats:
    """How many times as much mass an offset has as under a uniform pattern, as a logarithm.

    log (m(t) / Σ m) - log (u(t) / Σ u), with sums over the window.

    Parameters
    ----------
    mass, uniform
        As :func:`excess_over_uniform`.

    Returns
    -------
    float64 [..., 2 offsets + 1], nats; NaN where no query has a key that it may attend to.
    """
    mass, uniform = np.asarray(mass, np.float64), np.asarray(uniform, np.float64)
    shares = [
        # A mass can be too small for a number.
        np.maximum(masses / masses.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
        for masses in (mass, uniform)
    ]
    return np.where(uniform > 0, np.log(shares[0]) - np.log(shares[1]), np.nan)


@dataclass(frozen=True, eq=False)
class HeadTypes:
    """Clusters of heads, in an order that does not depend on the seed.

    Attributes
    ----------
    names
        Of each type; a name that comes again has a number.
    centroids
        float64 [types, features]: mean profile of the heads of each.
    labels
        int64 [heads]: type of each head.
    explained
        Share of the variance of the masses' square roots that lies between the types.
    """

    names: list[str]
    centroids: Floats
    labels: NDArray[np.int64]
    explained: float


def head_types(
    profiles: ArrayLike, uniform: ArrayLike, offsets: int, types: int, seed: int
) -> HeadTypes:
    """Group heads by where they look: k-means over the square roots of their masses by offset.

    Only masses within the window of keys that are text count. The distance of two heads is
    Hellinger's, up to a factor: a head that rests on the first token for the most part is still
    told by where the remainder goes. How much rests there is told by the names alone.

    Parameters
    ----------
    profiles
        [heads, columns from ``first`` on], see :func:`layout`: mean masses.
    uniform
        [columns from ``first`` on]: the same of a uniform pattern, for the names.
    offsets
        Half the window.
    types
        How many clusters; fewer if fewer heads differ.
    seed
        Seed of the initial centroids, of which there are ten sets.

    Returns
    -------
    HeadTypes
        Named by :func:`type_name`, ordered by name, then from many heads to few.

    Raises
    ------
    ValueError
        If shapes do not fit, or a profile is negative or not finite.
    """
    # scikit-learn takes a second to import; most of what is here does without.
    from sklearn.cluster import KMeans

    profiles = np.asarray(profiles, np.float64)  # [heads, features]
    uniform = np.asarray(uniform, np.float64)  # [features]
    if not profiles.shape[1:] == uniform.shape == (2 * offsets + 5,):
        raise ValueError(f"profiles of shape {profiles.shape} do not fit offsets of {offsets}")
    if not (np.isfinite(profiles).all() and (profiles >= 0).all()):
        raise ValueError("a profile is negative or not finite")
    roots = np.sqrt(profiles[:, 2 : 2 * offsets + 3])  # [heads, 2 offsets + 1]
    clusters = min(types, len(np.unique(roots, axis=0)))
    fitted = KMeans(clusters, n_init=10, random_state=seed).fit(roots)
    labels = fitted.labels_  # [heads]
    centroids = np.stack([profiles[labels == cluster].mean(axis=0) for cluster in range(clusters)])
    names = [type_name(centroid, uniform, offsets) for centroid in centroids]
    sizes = np.bincount(labels, minlength=clusters)  # [types]
    order = sorted(
        range(clusters),
        key=lambda cluster: (_rank(names[cluster]), -sizes[cluster], *(-centroids[cluster])),
    )
    total = np.square(roots - roots.mean(axis=0)).sum()
    return HeadTypes(
        names=_numbered([names[cluster] for cluster in order]),
        centroids=centroids[order],
        labels=np.argsort(order)[labels],
        explained=float(1 - fitted.inertia_ / total) if total > 0 else 1.0,
    )


def type_name(centroid: ArrayLike, uniform: ArrayLike, offsets: int) -> str:
    """Name a type of heads by its mean profile.

    The offset with the most mass on text gives the name if it has :data:`NAMED_MASS` at least; else
    the first token, or the other special tokens, if they have more than half of all mass. Otherwise
    a type is ``near`` if the share of the window in its mass on text is above that of a uniform
    pattern by :data:`NAMED_MASS`, else ``broad``.

    Parameters
    ----------
    centroid, uniform
        [columns from ``first`` on], as in :func:`head_types`.
    offsets
        Half the window.

    Examples
    --------
    >>> type_name([0.1, 0.0, 0.6, 0.2, 0.0, 0.1, 0.0], [1 / 7] * 7, offsets=1)
    'previous token'
    """
    centroid, uniform = np.asarray(centroid, np.float64), np.asarray(uniform, np.float64)
    window = slice(2, 2 * offsets + 3)
    best = int(peak_offset(centroid[window]))
    if centroid[window].max() >= NAMED_MASS:
        return _NAMES.get(best, f"offset {best:+d}")
    if centroid[:2].max() > 0.5:
        return "first token" if centroid[0] > centroid[1] else "special token"
    share, expected = (profile[window].sum() / profile[2:].sum() for profile in (centroid, uniform))
    return "near" if share - expected >= NAMED_MASS else "broad"


def _rank(name: str) -> tuple[int, str]:
    known = name if name in _ORDER else "offset"
    return _ORDER.index(known), name


def _numbered(names: list[str]) -> list[str]:
    """Names of which none comes twice."""
    return [
        name if (seen := names[:index].count(name)) == 0 else f"{name} {seen + 1}"
        for index, name in enumerate(names)
    ]
