"""What the position embeddings become: functions from a matrix to a matrix (row A1).

To add one, write a function of the embeddings, [positions, d_model], under ``@position``, and name
it in ``params.yaml``. Rows are positions that tokens can have: a library's padding rows are left
out before and put back after.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from posenc.config.base import MAX_LENGTH, Seed
from posenc.config.registry import Registry

Embeddings = NDArray[np.floating]

position = Registry("position")


@position
def intact(embeddings: Embeddings) -> Embeddings:
    """The embeddings as they are."""
    return embeddings


@position
def zero(embeddings: Embeddings) -> Embeddings:
    """The zero vector at every position (the source's experiment)."""
    return np.zeros_like(embeddings)


@position
def mean(embeddings: Embeddings) -> Embeddings:
    """The mean vector at every position: no position, but the offset that layers expect."""
    return np.broadcast_to(embeddings.mean(axis=0), embeddings.shape).copy()


@position
def keep_first(embeddings: Embeddings) -> Embeddings:
    """Position 0 keeps its vector, all others get the zero vector."""
    return np.concatenate([embeddings[:1], np.zeros_like(embeddings[1:])])


@position
def keep_first_mean(embeddings: Embeddings) -> Embeddings:
    """Position 0 keeps its vector, all others get the mean of theirs."""
    return np.concatenate([embeddings[:1], mean(embeddings[1:])])


@position
def shuffle(embeddings: Embeddings, *, seed: Seed) -> Embeddings:
    """The vectors in one fixed random order, the same for every document."""
    return embeddings[np.random.default_rng(seed).permutation(len(embeddings))]


@position
def shift(
    embeddings: Embeddings,
    *,
    by: Annotated[
        int,
        Field(
            ge=-MAX_LENGTH,
            le=MAX_LENGTH,
            description="Positions; the table's end goes on at its beginning.",
        ),
    ],
) -> Embeddings:
    """Position p gets the vector of position p + by, round the end of the table."""
    return np.roll(embeddings, -by, axis=0)


def extended(embeddings: Embeddings, count: int, beyond: str) -> Embeddings:
    """Give more positions a vector than the table has.

    Parameters
    ----------
    embeddings
        [positions, d_model].
    count
        How many are needed.
    beyond
        ``clamp``: the last vector again and again; ``wrap``: the table from its beginning.

    Returns
    -------
    [max(positions, count), d_model].
    """
    rows = np.arange(max(len(embeddings), count))  # [count]
    rows = np.minimum(rows, len(embeddings) - 1) if beyond == "clamp" else rows % len(embeddings)
    return embeddings[rows]
