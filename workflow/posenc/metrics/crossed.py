"""Means over documents that several trained or fitted models read, with an interval over both."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, percentile_interval, resampling_counts
from posenc.metrics.recovery import PairedMeans

Floats = NDArray[np.float64]


class CrossedMeans(PairedMeans):
    """Means over tokens of several results, with replicates over documents and over fits.

    Documents and fits are crossed: each fit's model reads every document. Both are resampled,
    independently of each other, and all results with the same draws: the pigeonhole bootstrap of
    Owen (2007), "The pigeonhole bootstrap", Annals of Applied Statistics 1, 386-411, whose variance
    is no less than the true one in expectation.

    Fits may be nested: several of each draw of what they learn from. Then draws are resampled, and
    of each that is drawn its fits (:func:`nested_weights`).

    Parameters
    ----------
    sums
        [fits, documents, k]: sums over each document's tokens, such as nll in nats; those of a draw
        stand together.
    tokens
        [documents]: tokens of each document.
    samples, confidence, seed
        Of the bootstrap.
    per_draw
        Fits of each draw; 1 where each fit is a draw of its own.

    Attributes
    ----------
    value
        [k]: means over all.
    of_fits
        [fits, k]: means over documents.
    replicates
        [samples, k].
    """

    def __init__(
        self,
        sums: ArrayLike,
        tokens: ArrayLike,
        *,
        samples: int,
        confidence: float,
        seed: int,
        per_draw: int = 1,
    ) -> None:
        sums, tokens = np.asarray(sums, np.float64), np.asarray(tokens, np.float64)
        self.of_fits: Floats = sums.sum(axis=1) / tokens.sum()  # [fits, k]
        self.value: Floats = self.of_fits.mean(axis=0)  # [k]
        self.confidence = confidence
        documents = np.concatenate(list(resampling_counts(len(tokens), samples, seed)))
        documents = documents.astype(np.float64)  # [samples, documents]
        fits = nested_weights(len(sums) // per_draw, per_draw, samples, seed)  # [samples, fits]
        parts = np.einsum("bd,sdk->bsk", documents, sums, optimize=True)  # [samples, fits, k]
        means = np.einsum("bs,bsk->bk", fits, parts)  # [samples, k]
        self.replicates: Floats = means / (documents @ tokens)[:, None]

    def curve(self, columns: slice, less: slice | None = None) -> Estimate:
        """Neighbouring means, or their differences from others, as arrays [columns]."""
        value, replicates = self.value[columns], self.replicates[:, columns]
        if less is not None:
            value, replicates = value - self.value[less], replicates - self.replicates[:, less]
        return percentile_interval(value, replicates, self.confidence)


def nested_weights(draws: int, per_draw: int, samples: int, seed: int) -> Floats:
    """Of resamples of draws, and of the fits of each that is drawn, each fit's share.

    Parameters
    ----------
    draws, per_draw, samples
        Numbers of draws, of fits of each, and of resamples.
    seed
        Of the resampling.

    Returns
    -------
    float64 [samples, draws * per_draw], rows of sum 1; fits of a draw stand together.

    Raises
    ------
    ValueError
        If there is no draw, or no fit of it.
    """
    if draws < 1 or per_draw < 1:
        raise ValueError(f"{draws} draws with {per_draw} fits each leave nothing to resample")
    others = np.random.SeedSequence([seed, 1])
    if per_draw == 1:
        counts = np.concatenate(list(resampling_counts(draws, samples, others)))
        return counts / draws
    generator = np.random.default_rng(others)
    drawn = generator.integers(draws, size=(samples, draws, 1))
    fits = drawn * per_draw + generator.integers(per_draw, size=(samples, draws, per_draw))
    total = draws * per_draw
    cells = fits.reshape(samples, total) + total * np.arange(samples)[:, None]  # [samples, total]
    counts = np.bincount(cells.ravel(), minlength=samples * total)
    return counts.reshape(samples, total) / total


def spreads(values: ArrayLike) -> dict[str, float]:
    """How far results lie apart by what they learned from, and by how, of the same.

    The two standard deviations of a nested analysis of variance, of which that between draws is
    what the draws' means scatter beyond what their fits explain (0 where they explain all of it).

    Parameters
    ----------
    values
        [draws, fits], at least two of either.

    Returns
    -------
    dict
        ``between_draws`` and ``within_draws``, in the unit of the values.

    Raises
    ------
    ValueError
        If there are fewer.

    Examples
    --------
    >>> spreads([[1.0, 1.0], [3.0, 3.0]])["within_draws"]
    0.0
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or min(values.shape) < 2:
        raise ValueError(f"two spreads need two draws with two fits each, not {values.shape}")
    within = values.var(axis=1, ddof=1).mean()
    between = values.mean(axis=1).var(ddof=1) - within / values.shape[1]
    return {
        "between_draws": float(np.sqrt(max(between, 0.0))),
        "within_draws": float(np.sqrt(within)),
    }
