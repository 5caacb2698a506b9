"""Rotary positions: queries and keys are turned by their positions before they meet.

R(t) turns pair j of a vector's features by the angle t θ_j. Since R(m)ᵀ R(n) = R(n - m), the score
of a query at position m and a key at n, (R(m) q)ᵀ R(n) k = qᵀ R(n - m) k, depends on the offset
n - m alone. Su et al. (2021), https://arxiv.org/abs/2104.09864, eqs. 16 and 34.

A frequency of 0 turns nothing: bands of frequencies are left out so, and without any the model has
no rotation, as if all positions were equal.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Layout = Literal["halves", "interleaved"]
"""Which features are a pair: c and c + r of the first 2 r (Llama, GPT-NeoX), or 2 c and 2 c + 1
(GPT-J, and the paper)."""


def frequencies(width: int, base: float = 10000.0) -> Floats:
    """Angles per token, θ_j = base^(-2j / width), j = 0, ..., width / 2 - 1.

    Parameters
    ----------
    width
        Features that are turned: d_head, or fewer where rotation is partial. Even.
    base
        Above 1; the lower the frequencies, the larger it is.

    Returns
    -------
    float64 [width / 2]: radians per token, falling from 1.

    Raises
    ------
    ValueError
        If the width is odd or not positive.
    """
    if width < 2 or width % 2:
        raise ValueError(f"features are turned in pairs: {width} is not an even, positive width")
    return base ** (-np.arange(0, width, 2) / width)


def banded(frequencies: ArrayLike, kept: Any) -> Floats:
    """Frequencies of a band, and 0 for the others.

    Parameters
    ----------
    frequencies
        [r], falling.
    kept
        Index of those that stay: ``slice(16)`` for the 16 highest, a list, or bool [r].

    Returns
    -------
    float64 [r].
    """
    frequencies = np.asarray(frequencies, np.float64)  # [r]
    band = np.zeros_like(frequencies)
    band[kept] = frequencies[kept]
    return band


def ntk_base(base: float, factor: float, width: int) -> float:
    """Base that stretches positions "NTK-aware": base · factor^(width / (width - 2)).

    The highest frequency stays 1 and the lowest is divided by the factor, where position
    interpolation divides all of them. Peng et al. (2023), https://arxiv.org/abs/2309.00071,
    definition 1.

    Parameters
    ----------
    base, width
        As of :func:`frequencies`. A width of 2 has the highest frequency alone, whatever the base.
    factor
        New length over trained length.
    """
    return base * factor ** (width / max(width - 2, 1))


def as_complex(x: ArrayLike, r: int, layout: Layout = "halves") -> NDArray[np.complex128]:
    """Pairs of features as complex numbers, which R(t) multiplies by exp(i t θ_j).

    Parameters
    ----------
    x
        [..., d_head].
    r
        Pairs that are turned.

    Returns
    -------
    complex128 [..., r].

    Raises
    ------
    ValueError
        If there are fewer features, or no such layout.
    """
    x = np.asarray(x, np.float64)  # [..., d_head]
    first, second = _places(x.shape[-1], r, layout)
    return x[..., first] + 1j * x[..., second]


def rotate(
    x: ArrayLike, positions: ArrayLike, frequencies: ArrayLike, layout: Layout = "halves"
) -> Floats:
    """Turn vectors by their positions: R(m) x.

    Parameters
    ----------
    x
        [..., tokens, d_head]: queries or keys.
    positions
        [tokens]: any real numbers. Position interpolation from a trained length L to L′ gives
        m L / L′ for m: Chen et al. (2023), https://arxiv.org/abs/2306.15595, eq. 4.
    frequencies
        [r], 2 r ≤ d_head: radians per token. Features after the first 2 r are not turned.
    layout
        Which features are a pair.

    Returns
    -------
    float64, as x.

    Raises
    ------
    ValueError
        If there are more frequencies than pairs, or no such layout.
    """
    turned = np.array(x, np.float64)  # [..., tokens, d_head]
    frequencies = np.asarray(frequencies, np.float64)  # [r]
    angles = np.asarray(positions, np.float64)[:, None] * frequencies  # [tokens, r]
    pairs = as_complex(x, len(frequencies), layout) * np.exp(1j * angles)  # [..., tokens, r]
    first, second = _places(turned.shape[-1], len(frequencies), layout)
    turned[..., first], turned[..., second] = pairs.real, pairs.imag
    return turned


def for_query_heads(keys: ArrayLike, n_heads: int, axis: int = 0) -> NDArray[Any]:
    """Give each query head the key head of its group: h has h // (n_heads / n_key_heads).

    Parameters
    ----------
    keys
        [..., n_key_heads, ...], heads at an axis.
    n_heads
        Of the queries.

    Returns
    -------
    [..., n_heads, ...].

    Raises
    ------
    ValueError
        If the groups are not of one size.
    """
    keys = np.asarray(keys)
    if n_heads % keys.shape[axis]:
        raise ValueError(f"{n_heads} query heads do not share {keys.shape[axis]} key heads evenly")
    return np.repeat(keys, n_heads // keys.shape[axis], axis=axis)


def scores(
    queries: ArrayLike,
    keys: ArrayLike,
    positions: ArrayLike,
    frequencies: ArrayLike,
    *,
    layout: Layout = "halves",
    clip: float | None = None,
) -> Floats:
    """Scaled attention scores of queries and keys before rotation, qᵀ R(n - m) k / √d_head.

    Parameters
    ----------
    queries, keys
        [n_heads, tokens, d_head] and [n_key_heads, tokens, d_head].
    positions, frequencies, layout
        As of :func:`rotate`.
    clip
        Largest distance w: keys further away are turned as if they stood at w, on their side, as
        Shaw et al. (2018), https://arxiv.org/abs/1803.02155, section 3.2, clip theirs. None: no
        limit.

    Returns
    -------
    float64 [n_heads, tokens, tokens]: query, key; without mask.
    """
    queries, positions = np.asarray(queries, np.float64), np.asarray(positions, np.float64)
    keys = for_query_heads(keys, len(queries))  # [n_heads, tokens, d_head]
    turned = (rotate(x, positions, frequencies, layout) for x in (queries, keys))
    products = next(turned) @ np.swapaxes(next(turned), -1, -2)  # [n_heads, tokens, tokens]
    if clip is not None:
        offset = positions - positions[:, None]  # [tokens, tokens]
        for side in (-1, 1):
            edge = np.full(len(positions), side * clip)  # [tokens]
            fixed = queries @ np.swapaxes(rotate(keys, edge, frequencies, layout), -1, -2)
            products = np.where(side * offset > clip, fixed, products)
    return products / math.sqrt(queries.shape[-1])


def _places(d_head: int, r: int, layout: Layout) -> tuple[slice, slice]:
    if 2 * r > d_head:
        raise ValueError(f"{r} frequencies turn {2 * r} features, but there are {d_head}")
    if layout == "halves":
        return slice(r), slice(r, 2 * r)
    if layout == "interleaved":
        return slice(0, 2 * r, 2), slice(1, 2 * r, 2)
    raise ValueError(f"layout {layout!r} is neither 'halves' nor 'interleaved'")
