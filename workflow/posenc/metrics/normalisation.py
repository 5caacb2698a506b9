"""What layer normalisation does to the position that was added to its input (C5).

With rows as tokens, LN(x) = S (I - 11ᵀ/d) x L + b: a scale for each token, S = 1 / √(variance +
eps), the subtraction of each row's mean, and the diagonal gain L (Ba, Kiros and Hinton 2016,
https://arxiv.org/abs/1607.06450). It is linear but for S, so that LN(∗ + P) is the sum of a part
of ∗ and of S P L, with P centred; S is that of the whole. Where normalisations follow each other
in the residual stream, P becomes S₁ S₂ … P L₁ L₂ …, since a scale is a number. So does each of the
vectors that a stream is the sum of (Kobayashi et al. 2021,
https://doi.org/10.18653/v1/2021.emnlp-main.373, take one block apart like this).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate
from posenc.metrics.moments import correlation_of_moments, sums_by_group
from posenc.metrics.norms import centred_and_deviation
from posenc.metrics.spectra import amplitude_spectrum, frequencies

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantiles of the scale."""
SOURCES = ("position", "tokens", "attention", "mlp")
"""What a residual stream is the sum of. Biases of normalisations count as of ``tokens``."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a layer normalisation: S, (I - 11ᵀ/d) x, L and b.

    ``scale`` is float64 [...], ``centred`` [..., d_model], ``gain`` and ``bias`` [d_model].
    """

    scale: NDArray[np.float64]
    centred: NDArray[np.float64]
    gain: NDArray[np.float64]
    bias: NDArray[np.float64]

    @property
    def output(self) -> NDArray[np.float64]:
        """S (I - 11ᵀ/d) x L + b, [..., d_model]."""
        return self.scale[..., None] * self.centred * self.gain + self.bias


def parts(x: ArrayLike, gain: ArrayLike, bias: ArrayLike, eps: float) -> Parts:
    """Take a layer normalisation apart.

    Parameters
    ----------
    x
        [..., d_model].
    gain, bias
        [d_model].
    eps
        Added to the variance.

    Raises
    ------
    ValueError
        If a row has no variance and eps is 0, eps is negative, or the shapes do not fit.
    """
    x = np.asarray(x, np.float64)  # [..., d_model]
    gain, bias = np.asarray(gain, np.float64), np.asarray(bias, np.float64)  # [d_model] each
    if not x.shape[-1:] == gain.shape == bias.shape:
        raise ValueError(f"shapes {x.shape}, {gain.shape}, {bias.shape} do not share d_model")
    centred, deviation = centred_and_deviation(x, eps)  # [..., d_model], [..., 1]
    return Parts(1 / deviation[..., 0], centred, gain, bias)


VECTORS = ("input", "output", *SOURCES)
"""What :func:`carried` gives of a normalisation."""


def carried(
    inputs: Iterable[ArrayLike],
    norms: Iterable[tuple[ArrayLike, ArrayLike]],
    added: Sequence[str],
    position: ArrayLike,
    *,
    eps: float,
    is_stream: bool,
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Follow what a residual stream is the sum of through its normalisations.

    Parameters
    ----------
    inputs
        [tokens, d_model] each, in the order in which they are passed.
    norms
        Gain and bias of each, [d_model].
    added
        Which of ``SOURCES`` has been added to the stream since the one before: ``tokens`` first.
    position
        [tokens, d_model]: position embeddings, a part of the first input.
    eps
        As of :func:`parts`.
    is_stream
        Whether an output is the stream from there on (an encoder's), or is read by a block alone.

    Yields
    ------
    S, float64 [tokens]; and by ``VECTORS`` the input, the output, and what the normalisation makes
    of each source, whose sum is the output exactly: float64 [6, tokens, d_model], which the next
    step overwrites.
    """
    position = np.asarray(position, np.float64)  # [tokens, d_model]
    stream = np.zeros((len(SOURCES), *position.shape))  # [4, tokens, d_model]
    stream[SOURCES.index("position")] = position
    # One array for all steps: it is the largest by far.
    vectors = np.empty((len(VECTORS), *position.shape))  # [6, tokens, d_model]
    for x, (gain, bias), source in zip(inputs, norms, added, strict=True):
        vectors[0] = x
        whole = parts(vectors[0], gain, bias, eps)
        stream[SOURCES.index(source)] += vectors[0] - stream.sum(axis=0)
        normalised = vectors[2:]  # [4, tokens, d_model]
        np.subtract(stream, stream.mean(axis=-1, keepdims=True), out=normalised)
        normalised *= whole.scale[:, None]
        normalised *= whole.gain
        normalised[SOURCES.index("tokens")] += whole.bias
        vectors[1] = whole.output
        yield whole.scale, vectors
        if is_stream:
            stream[:] = normalised


def jackknife(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    sums: NDArray[np.float64],
    confidence: float,
) -> Estimate:
    """A function of sums over documents, with its interval by leaving one out at a time.

    Not the bootstrap of :mod:`posenc.metrics.bootstrap`: a document that is drawn twice would
    count as two in a correction for finite samples.

    Parameters
    ----------
    statistic
        From sums, [n, k], to values, [n, m].
    sums
        [documents, k], two documents at least.
    confidence
        Level of the normal interval.

    Notes
    -----
    Efron and Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 11.
    """
    total = sums.sum(axis=0)  # [k]
    return interval(statistic(total[None])[0], statistic(total - sums), confidence)


def interval(
    value: float | NDArray[np.float64], left_out: NDArray[np.float64], confidence: float
) -> Estimate:
    """The jackknife's interval from values with each document left out, [documents] or more."""
    from scipy.stats import norm

    n = len(left_out)
    if n < 2:
        raise ValueError("the jackknife needs two documents")
    error = np.sqrt((n - 1) * left_out.var(axis=0))  # [] or [m]
    half = norm.ppf((1 + confidence) / 2) * error
    return Estimate(value, value - half, value + half)


class ScaleSpread(NamedTuple):
    """How much the scale S differs between tokens, and whether with their position.

    Attributes
    ----------
    mean, sd
        Of the scale.
    variation
        Standard deviation over mean.
    correlation
        With position (Pearson); None where either is constant.
    quantiles
        By level.
    """

    mean: Estimate
    sd: float
    variation: Estimate
    correlation: Estimate | None
    quantiles: dict[str, float]


def scale_spread(
    scale: ArrayLike, position: ArrayLike, document: ArrayLike, confidence: float
) -> ScaleSpread:
    """How much the scale S differs between tokens, and whether with their position.

    Parameters
    ----------
    scale, position, document
        [tokens].
    confidence
        Of the intervals by :func:`jackknife`.
    """
    scale, position = np.asarray(scale, np.float64), np.asarray(position, np.float64)
    centre = scale.mean()
    s, p = scale - centre, position - position.mean()  # [tokens] each
    columns = np.stack([np.ones(len(s)), s, p, s * s, p * p, s * p], axis=1)  # [tokens, 6]
    sums = sums_by_group(columns, document)  # [documents, 6]

    def moments(sums: NDArray[np.float64]) -> NDArray[np.float64]:  # [n, 6] to [n, 3]
        _, s, _, ss, _, _ = (sums / sums[:, :1]).T  # [n] each
        deviation = np.sqrt(np.clip(ss - s * s, 0, None))  # [n]
        correlation = correlation_of_moments(sums[..., None])[:, 0]  # [n]
        return np.stack([centre + s, deviation / (centre + s), correlation], axis=1)

    three = jackknife(moments, sums, confidence)
    mean, variation, correlation = (
        Estimate(*numbers) for numbers in np.stack([three.value, three.low, three.high], axis=1)
    )
    constant = np.ptp(s) == 0 or np.ptp(p) == 0
    return ScaleSpread(
        mean=mean,
        sd=float(scale.std()),
        variation=variation,
        correlation=None if constant else correlation,
        quantiles={f"{q:g}": float(np.quantile(scale, q)) for q in QUANTILES},
    )


def amplitudes(signal: ArrayLike) -> NDArray[np.float64]:
    """Amplitude spectrum along the sequence, |DFT| / window, mean over d_model.

    From [..., window, d_model] to float64 [..., window // 2 + 1], at 0, 1 / window, ... cycles a
    token.
    """
    signal = np.asarray(signal, np.float64)  # [..., window, d_model]
    return amplitude_spectrum(signal).mean(axis=-1) / signal.shape[-2]


class Spectrum(NamedTuple):
    """Amplitudes of S P L along the sequence, mean over d_model.

    Attributes
    ----------
    frequency
        float64 [window // 2 + 1], in cycles per token.
    position
        float64 [window // 2 + 1]: of P L with S at its mean everywhere.
    scaled
        Arrays [window // 2 + 1]: of S P L, mean over documents.
    """

    frequency: NDArray[np.float64]
    position: NDArray[np.float64]
    scaled: Estimate


def scaled_spectrum(
    scale: ArrayLike, position: ArrayLike, gain: ArrayLike, confidence: float
) -> Spectrum:
    """Spectrum of S P L along the sequence, against that of P L times the mean of S.

    Parameters
    ----------
    scale
        [documents, window]: S of the tokens at the same positions.
    position, gain
        [window, d_model], position embeddings of those; and [d_model].
    confidence
        Of the interval by leaving one document out at a time.

    Returns
    -------
    Both spectra, which are the same where S is the same everywhere.
    """
    scale, position = np.asarray(scale, np.float64), np.asarray(position, np.float64)
    centred = position - position.mean(axis=-1, keepdims=True)  # [window, d_model]
    carried = centred * np.asarray(gain, np.float64)  # [window, d_model]
    each = np.stack([amplitudes(row[:, None] * carried) for row in scale])  # [documents, k]
    columns = np.concatenate([np.ones((len(each), 1)), each], axis=1)  # [documents, 1 + k]
    return Spectrum(
        frequency=frequencies(len(position)),
        position=scale.mean() * amplitudes(carried),
        scaled=jackknife(lambda sums: sums[:, 1:] / sums[:, :1], columns, confidence),
    )


class ScaleEffect(NamedTuple):
    """What the scale of a normalisation does to the position embeddings in its input.

    Attributes
    ----------
    scale
        How it differs between tokens.
    variation
        Of the scale times those of earlier normalisations.
    window, windows
        Tokens of the spectrum, which at least half of the documents have; and documents of it.
    spectrum
        Of the first ``window`` tokens.
    """

    scale: ScaleSpread
    variation: Estimate
    window: int
    windows: int
    spectrum: Spectrum


def of_scale(
    scale: ArrayLike, added: ArrayLike, gain: ArrayLike, position: ArrayLike, document: ArrayLike,
    confidence: float, earlier: ArrayLike | float = 1.0,
) -> ScaleEffect:  # fmt: skip
    """What the scale of a normalisation does to the position embeddings in its input.

    Parameters
    ----------
    scale
        [tokens], of documents from position 1 on; position 0 has the same token in all of them.
    added, gain
        [positions, d_model], P, as earlier normalisations have left it; and [d_model].
    position, document
        int [tokens].
    confidence
        Of the intervals by :func:`jackknife`.
    earlier
        [tokens]: the product of the scales of earlier normalisations, which is not in ``added``.
    """
    position, document = np.asarray(position), np.asarray(document)  # [tokens] each
    product = np.asarray(scale, np.float64) * np.asarray(earlier, np.float64)  # [tokens]
    sizes = np.bincount(document)  # [documents]
    window = int(np.quantile(sizes[sizes > 0], 0.5, method="lower"))
    full = (sizes[document] >= window) & (position <= window)  # [tokens]
    return ScaleEffect(
        scale=scale_spread(scale, position, document, confidence),
        variation=scale_spread(product, position, document, confidence).variation,
        window=window,
        windows=int(full.sum()) // window,
        spectrum=scaled_spectrum(
            product[full].reshape(-1, window), np.asarray(added)[1 : window + 1], gain, confidence
        ),
    )
