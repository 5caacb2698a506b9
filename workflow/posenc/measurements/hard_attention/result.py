"""What it finds out about a run.

Variances and gradients are with respect to the scores that softmax is given. What is a ratio is
None where its divisor is 0, in the data or in a resample of the documents.
"""

from __future__ import annotations

from typing import Literal

from posenc.artifacts.results import Interval, OfDocuments, Part


class Readouts(Part):
    """What is read out, softly and hard: means over queries."""

    soft: Interval
    """Objective of the soft read-out."""
    hard: Interval
    """Expected objective of the hard one."""
    noise: Interval | None
    """Squared distance of the read-out of one drawn key from the soft one, as a share of its
    square."""
    noise_anywhere: Interval | None
    """The same of any key, drawn uniformly."""


class Variances(Part):
    """Total variance of the estimated gradient from one sample, by baseline."""

    none: Interval
    mean: Interval
    optimal: Interval


class Ratios(Part):
    """Variance with a baseline over that with none."""

    mean: Interval | None
    optimal: Interval | None


class SamplesToSignal(Part):
    """Samples until the squared gradient exceeds its estimate's variance, by baseline."""

    none: Interval | None
    mean: Interval | None
    optimal: Interval | None


class Exact(Readouts):
    """What is known without drawing keys."""

    variance: Variances
    ratio: Ratios


class Checks(Part):
    """Largest errors of identities, over all queries: rounding."""

    weights: float
    """Of the weights' sum, 1."""
    score: float
    """Of the score function's expectation, 0."""
    gap: float
    """Of the soft objective less the hard one's expectation: the read-outs' variance over 2 d."""


class SoftGradient(Part):
    """How far the soft read-out's gradient is from the hard one's."""

    square: Interval
    """Squared difference."""
    error: Interval | None
    """The same as a share of the hard one's square."""
    cosine: Interval | None


class Values(Exact):
    """The same of the values that heads read, in place of hidden states."""

    signal: Interval
    """Squared gradient."""
    samples_to_signal: SamplesToSignal
    soft_gradient: SoftGradient
    checks: Checks


class Bias(Part):
    """Bias of an estimate, from repetitions."""

    square: Interval | None
    """Squared distance of the estimates' mean from the gradient, over what chance gives."""
    relative: float
    """Along the gradient, as a share of it."""
    standard_error: float
    """Exact, of ``relative``."""
    z: float
    """``relative`` over its standard error."""


class Sampled(Part):
    """Estimates of the gradient from so many samples."""

    samples: int
    variance: Interval
    """Exact."""
    simulated: Interval
    """Of the repetitions."""
    agreement: Interval | None
    """Simulated over exact."""
    bias: Bias


class Baseline(Part):
    """What is subtracted from the objective, and what that does to the gradient's variance."""

    name: Literal["none", "mean", "optimal"]
    value: Interval
    ratio: Interval | None
    """Variance over that with none."""
    over_optimal: Interval | None
    """Variance over that with the best baseline."""
    worse: Interval
    """Share of queries with more variance than with none."""
    samples_to_signal: Interval | None
    """Samples until the squared gradient exceeds the variance."""
    samples_to_soft: Interval | None
    """Samples until the soft gradient's squared error does."""
    samples: list[Sampled]


class LargestBias(Part):
    """The largest bias along the gradient, of all baselines and numbers of samples."""

    tests: int
    largest: float
    """Largest abs(z)."""
    bound: float
    """What chance exceeds once in 1 / (1 - confidence), by Bonferroni."""


class OfPatterns(Exact):
    """Patterns of one or more heads, and what is read out with them."""

    entropy: Interval
    """Of the pattern, in nats."""
    uniform: Interval
    """Entropy of a uniform pattern over the same keys."""
    values: Exact


class Layer(OfPatterns):
    """The drawn heads of a layer."""

    layer: int
    heads: int
    """How many."""


class Head(OfPatterns):
    """A drawn head."""

    layer: int
    head: int


class Attention(OfDocuments, Readouts):
    """Soft and hard read-outs of the drawn heads; ``tokens`` are the queries."""

    is_causal: bool
    n_layers: int
    n_heads: int
    repeats: int
    """Estimates of each gradient."""
    entropy: Interval
    """Of the patterns, in nats."""
    uniform: Interval
    """Entropy of a uniform pattern over the same keys."""
    readout_distance: Interval | None
    """Squared distance of the mean of all drawn read-outs from the soft one, over what chance
    gives."""
    signal: Interval
    """Squared gradient."""
    baselines: list[Baseline]
    """``none``, ``mean``, ``optimal``."""
    bias: LargestBias
    soft_gradient: SoftGradient
    checks: Checks
    values: Values
    layers: list[Layer]
    heads: list[Head]
