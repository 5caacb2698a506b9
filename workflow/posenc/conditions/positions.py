"""What positions become: functions from a matrix to a matrix (rows A1 and F1).

A row is a position that tokens can have. In a model with position embeddings the matrix is their
table, [positions, d_model], without a library's padding rows; in a rotary model it is the angles
that pairs of features are turned by, [positions, d_head / 2], in radians. To add one, write a
function of the matrix under ``@position``, say with ``@of`` if it is for one of the two, and name
it in ``params.yaml``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from posenc.config.base import MAX_LENGTH, Factor, Seed
from posenc.config.registry import Registry
from posenc.metrics import rotary

Embeddings = NDArray[np.floating]
Angles = NDArray[np.floating]
TABLE, ROTATION = "table", "rotation"
"""How positions come into a model: by a table of embeddings, or by turning queries and keys."""

position: Registry[Callable[..., Any]] = Registry("position")


def of(kind: str) -> Callable:
    """Mark a function as one for tables alone, or for rotations alone."""

    def mark(function: Callable) -> Callable:
        function.of = kind  # type: ignore[attr-defined]
        return function

    return mark


def kinds_for(positions: str) -> list[str]:
    """Names of the functions for models whose positions come in by a table, or by rotation."""
    functions = position.functions.items()
    return [name for name, function in functions if getattr(function, "of", positions) == positions]


@position
def intact(embeddings: Embeddings) -> Embeddings:
    """The embeddings or angles as they are."""
    return embeddings


@position
def zero(embeddings: Embeddings) -> Embeddings:
    """The zero vector at every position (the source's experiment); no rotation."""
    return np.zeros_like(embeddings)


@position
@of(TABLE)
def mean(embeddings: Embeddings) -> Embeddings:
    """The mean vector at every position: no position, but the offset that layers expect."""
    return np.broadcast_to(embeddings.mean(axis=0), embeddings.shape).copy()


@position
@of(TABLE)
def keep_first(embeddings: Embeddings) -> Embeddings:
    """Position 0 keeps its vector, all others get the zero vector."""
    return np.concatenate([embeddings[:1], np.zeros_like(embeddings[1:])])


@position
@of(TABLE)
def keep_first_mean(embeddings: Embeddings) -> Embeddings:
    """Position 0 keeps its vector, all others get the mean of theirs."""
    return np.concatenate([embeddings[:1], mean(embeddings[1:])])


@position
def shuffle(embeddings: Embeddings, *, seed: Seed) -> Embeddings:
    """The rows in one fixed random order, the same for every document."""
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
            description="Positions; a table's end goes on at its beginning, a rotation goes on.",
        ),
    ],
) -> Embeddings:
    """Position p gets the row of p + by, round the end of a table; a rotation goes on."""
    return np.roll(embeddings, -by, axis=0)


@position
@of(ROTATION)
def bands(
    angles: Angles,
    *,
    kept: Literal["highest", "lowest"],
    count: Annotated[int, Field(ge=0, le=MAX_LENGTH)],
) -> Angles:
    """So many of the highest or lowest frequencies alone; the other pairs are not turned."""
    n = angles.shape[1]
    band = slice(count) if kept == "highest" else slice(max(n - count, 0), n)  # frequencies fall
    return angles * rotary.banded(np.ones(n), band)


@position
@of(ROTATION)
def interpolate(angles: Angles, *, by: Factor) -> Angles:
    """All positions times a factor: Chen et al. (2023), https://arxiv.org/abs/2306.15595, eq. 4."""
    return by * angles


@position
@of(ROTATION)
def base(angles: Angles, *, stretch: Factor) -> Angles:
    """Another base, so that the lowest frequency is divided by a factor and the highest stays.

    "NTK-aware" stretching: Peng et al. (2023), https://arxiv.org/abs/2309.00071, definition 1.
    """
    width = 2 * angles.shape[1]
    return angles * rotary.frequencies(width, rotary.ntk_base(1.0, stretch, width))


def changed_angles(section: Any, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a condition makes of a rotation's angles, which have no end, unlike a table.

    Parameters
    ----------
    section
        Of a function of angles.
    angles
        [positions, d_head / 2]: those of position 0, 1, ..., each a multiple of position 1's.
    """
    if getattr(section, "kind", None) != "shift" or len(angles) < 2:
        return position.call(section, angles)
    places = np.arange(len(angles)) + section.by  # [positions]
    return places[:, None] * angles[1]


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
