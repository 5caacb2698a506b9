"""The law of the variance of causal self-attention: position without position embeddings.

Where a token attends to itself and all tokens before it alike, its output is the mean of m
independent values, whose variance is 1/m of one. So even frozen random weights tell position.
Chi et al. (2023), https://arxiv.org/abs/2305.13571.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def position_variance(outputs: ArrayLike) -> NDArray[np.float64]:
    """Variance over the entries of an output, by position: the mean over sequences.

    Parameters
    ----------
    outputs
        [sequences, tokens, d_model]: outputs of an attention sublayer, before the residual.

    Returns
    -------
    float64 [tokens].

    Raises
    ------
    ValueError
        If the shape is another one, or a value is not finite.
    """
    outputs = np.asarray(outputs, np.float64)  # [sequences, tokens, d_model]
    if outputs.ndim != 3 or 0 in outputs.shape:
        raise ValueError(f"shape {outputs.shape} is not [sequences, tokens, d_model]")
    if not np.isfinite(outputs).all():
        raise ValueError("outputs must be finite")
    return outputs.var(axis=-1).mean(axis=0)


def scaled_variance(variance: ArrayLike) -> NDArray[np.float64]:
    """m · var_m / var_1, which is 1 at each position m = 1, 2, ... under the law var_m = var_1 / m.

    Parameters
    ----------
    variance
        [tokens]: variance at position m, beginning with m = 1; positive.

    Returns
    -------
    float64 [tokens].

    Raises
    ------
    ValueError
        If a variance is not positive and finite.

    Examples
    --------
    >>> scaled_variance([6.0, 3.0, 2.0]).tolist()
    [1.0, 1.0, 1.0]
    """
    variance = _checked(variance)
    return variance * np.arange(1, len(variance) + 1) / variance[0]


def decay_exponent(variance: ArrayLike) -> float:
    """Slope of the least-squares line of log var_m against log m: -1 under the law.

    A variance that does not depend on position has 0.

    Parameters
    ----------
    variance
        [tokens]: as :func:`scaled_variance`; two at least.

    Raises
    ------
    ValueError
        As :func:`scaled_variance`, and if there is one position only.
    """
    variance = _checked(variance)
    if len(variance) < 2:
        raise ValueError("one position has no slope")
    return float(np.polyfit(np.log(np.arange(1, len(variance) + 1)), np.log(variance), 1)[0])


def _checked(variance: ArrayLike) -> NDArray[np.float64]:
    variance = np.asarray(variance, np.float64)  # [tokens]
    if variance.ndim != 1 or len(variance) == 0:
        raise ValueError(f"shape {variance.shape} is not [tokens]")
    if not (np.isfinite(variance).all() and (variance > 0).all()):
        raise ValueError("variances must be positive and finite")
    return variance
