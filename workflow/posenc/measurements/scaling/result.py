"""What it finds out, of random queries and keys."""

from __future__ import annotations

from posenc.artifacts.results import Interval, Part, Result


class Uniform(Part):
    """The softmax of a uniform pattern: as far from saturated as it can be."""

    largest: float
    """Largest probability."""
    entropy: float
    """In nats."""
    frobenius: float
    """Frobenius norm of the softmax's Jacobian."""
    spectral: float
    """Spectral norm of the same."""


class Medians(Part):
    """Medians over queries of what :class:`Scores` has the means of."""

    largest: Interval
    frobenius: Interval
    spectral: Interval


class Scores(Part):
    """Attention scores and their softmax: means over queries."""

    variance: Interval
    """Of the scores, about 0, which is their mean by construction."""
    largest: Interval
    """Largest probability."""
    entropy: Interval
    """In nats."""
    frobenius: Interval
    """Frobenius norm of the softmax's Jacobian."""
    spectral: Interval
    """Spectral norm of the same."""
    median: Medians


class Dimension(Part):
    """Scores of queries and keys of d_k entries."""

    d_k: int
    raw: Scores
    scaled: Scores
    """The same scores divided by √d_k."""


class ByDimension(Result):
    """Scores by d_k, with and without the scaling."""

    queries: int
    keys: int
    """Of each query; no two queries share one."""
    confidence: float
    uniform: Uniform
    dimensions: list[Dimension]
