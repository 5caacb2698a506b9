"""What position embeddings add to hidden states on average, and what it is compared with (C5).

At the input of a block the effect of position p is the mean, over documents, of the state at p in
the intact model minus that in the model without position embeddings, on the same tokens. What the
tokens of a position have in common, such as the one that begins every document, is in both and
cancels; so does what a causal mask tells of position without embeddings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.moments import sums_by_group

PARTS = ("own", "permuted", "offset")
"""Of the mean effect: each position's own; another's, by one permutation; the mean over all."""


class Sizes(NamedTuple):
    """How large a mean effect is beside hidden states, and whether it is the first block's.

    Attributes
    ----------
    position, offset, states
        Lengths, root mean square: of the effect less its mean over positions, of this mean, and
        of states less theirs over tokens.
    alignment
        Cosine of the two effects as one vector each, both less their means: 1 where P is carried
        unchanged. None where either has none.
    """

    position: float
    offset: float
    states: float
    alignment: float | None


def means_by_position(values: ArrayLike, position: ArrayLike) -> NDArray[np.float64]:
    """Means over the tokens at each position.

    Parameters
    ----------
    values
        [tokens, d_model], of any float type.
    position
        int [tokens]: 0, ..., n - 1, each at least once.

    Returns
    -------
    float64 [n, d_model].

    Raises
    ------
    ValueError
        If a position below the last one has no token.
    """
    counts = np.bincount(position)  # [n]
    if not counts.all():
        raise ValueError(f"no token is at position {int(np.argmin(counts))}")
    return sums_by_group(np.asarray(values, np.float64), position) / counts[:, None]


def parts_of(effect: ArrayLike, order: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """What is added or taken at each position, by ``PARTS``.

    Parameters
    ----------
    effect
        [n, d_model], of :func:`means_by_position`.
    order
        int [n], a permutation of positions: ``permuted`` has the same vectors, lengths and mean.

    Returns
    -------
    float64 [n, d_model] each.
    """
    effect = np.asarray(effect, np.float64)  # [n, d_model]
    mean = np.broadcast_to(effect.mean(axis=0), effect.shape)  # [n, d_model]
    return dict(zip(PARTS, (effect, effect[np.asarray(order)], mean), strict=True))


def sizes(effect: ArrayLike, first: ArrayLike, states: ArrayLike) -> Sizes:
    """How large the mean effect is beside hidden states, and whether it is the first block's.

    Parameters
    ----------
    effect, first
        [n, d_model]: at the input of a block, and of the first one.
    states
        [tokens, d_model]: of the intact model, at the input of the block.
    """
    effect, first, states = (np.asarray(vectors, np.float64) for vectors in (effect, first, states))
    a, b, x = (vectors - vectors.mean(axis=0) for vectors in (effect, first, states))
    norms = np.sqrt((a * a).sum() * (b * b).sum())
    return Sizes(
        position=float(np.sqrt((a * a).sum(axis=1).mean())),
        offset=float(np.linalg.norm(effect.mean(axis=0))),
        states=float(np.sqrt((x * x).sum(axis=1).mean())),
        alignment=float((a * b).sum() / norms) if norms > 0 else None,
    )
