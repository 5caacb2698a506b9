"""Mask profiles: a number for each pair of a query and a key.

A *factor* lies between 0 and 1, means what the semantics make of it
(:mod:`posenc.conditions.semantics`), and runs over a document. A *bias* is added to the attention
scores, and depends on where query and key stand. To add one, write a function of a
:class:`Document` under ``@factor`` or of :class:`Places` under ``@bias``, and name it in
``params.yaml``; ``docs/conditions.md`` shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from posenc.config.base import Factor, Length, Name
from posenc.config.base import Slope as BoundedSlope
from posenc.config.registry import Registry

Slope = Annotated[BoundedSlope, Field(description="Nats per token of distance.")]
Scale = Annotated[
    float, Field(ge=-10, le=10, description="Times its biases; -1 takes them from the scores.")
]
Floor = Annotated[float, Field(ge=0, le=1, description="Factor of the first key; the last has 1.")]


@dataclass(frozen=True)
class Places:
    """Where queries and keys stand, as a bias sees them.

    Attributes
    ----------
    query, key
        int64 [tokens, 1] and [1, tokens]: positions, from 0.
    n_heads
        Heads of the layer.
    """

    query: NDArray[np.int64]
    key: NDArray[np.int64]
    n_heads: int

    @classmethod
    def of(cls, tokens: int, n_heads: int = 1) -> Places:
        """All pairs of so many tokens."""
        positions = np.arange(tokens)
        return cls(positions[:, None], positions[None, :], n_heads)

    @property
    def distance(self) -> NDArray[np.int64]:
        """Tokens between query and key, in either direction, [tokens, tokens]."""
        return np.abs(self.query - self.key)


@dataclass(frozen=True)
class Document:
    """A document as a factor sees it: its length counts.

    Attributes
    ----------
    length
        Its tokens.
    per_query
        Whether a key's place is measured within its query's own past instead of the document.
    """

    length: int
    per_query: bool = False

    @property
    def fraction(self) -> NDArray[np.float64]:
        """Where a key stands, 0 for the first and 1 for the last, [length or 1, length].

        A key that stands alone is the last, and so is one that comes after its query.
        """
        key = np.arange(self.length)[None, :]  # [1, length]
        last = key.T if self.per_query else np.array([[self.length - 1]])  # [length or 1, 1]
        return np.minimum(np.where(last > 0, key / np.maximum(last, 1), 1.0), 1.0)


factor: Registry[Callable[..., Any]] = Registry("factor")
bias: Registry[Callable[..., Any]] = Registry("bias")


@factor
def linear(document: Document, *, floor: Floor) -> NDArray[np.float64]:
    """From the floor to 1 in equal steps: the source's ``linspace(0.1, 1, n)``."""
    return floor + (1 - floor) * document.fraction


@factor
def exponential(document: Document, *, floor: Floor) -> NDArray[np.float64]:
    """From the floor to 1 in equal ratios: its logarithm is linear in the key's place."""
    return floor ** (1 - document.fraction)


@factor
def power(document: Document, *, floor: Floor, exponent: Factor) -> NDArray[np.float64]:
    """From the floor to 1 as a power of the key's place."""
    return floor + (1 - floor) * document.fraction**exponent


@factor
def constant(
    document: Document, *, value: Annotated[float, Field(ge=0, le=1)]
) -> NDArray[np.float64]:
    """The same for every key: what a semantics does without any profile."""
    return np.full((1, document.length), value)


@bias
def alibi(at: Places, *, slope: Slope) -> NDArray[np.float64]:
    """Falling with the distance, alike in all heads."""
    return np.asarray(-slope * at.distance, np.float64)


@bias
def alibi_geometric(at: Places, *, scale: Factor = 1.0) -> NDArray:
    """Falling with the distance, with slopes 2^(-8/H), 2^(-16/H), ... (Press et al., 2022)."""
    heads = np.arange(1, at.n_heads + 1)  # [n_heads]
    return -scale * 2.0 ** (-8 * heads / at.n_heads)[:, None, None] * at.distance


@bias
def logarithmic(at: Places, *, slope: Slope) -> NDArray[np.float64]:
    """Falling with the logarithm of 1 + distance: the pattern falls as a power of the distance."""
    return -slope * np.log1p(at.distance)


@bias
def window(at: Places, *, tokens: Length) -> NDArray[np.float64]:
    """The nearest keys alone, the query's own among them; all others are not seen."""
    return np.where(at.distance < tokens, 0.0, -np.inf)


@bias
def learned(at: Places, *, mask: Name, scale: Scale = 1.0) -> NDArray[np.float64]:
    """A mask of the section ``masks``, learned from calibration text."""
    raise NotImplementedError(
        "a learned bias is read from its file, by posenc.capture.interventions"
    )
