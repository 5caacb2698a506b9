"""How alike the hidden states of two runs are, beyond the raw cosine of corresponding tokens.

A few dimensions of large mean or variance decide the raw cosine of a Transformer's hidden states
(Timkey and van Schijndel 2021, https://aclanthology.org/2021.emnlp-main.372). The cosines here
take the mean, or the mean and the scale, of each dimension away first. Linear CKA compares the
geometry of the two sets of tokens and knows no correspondence of dimensions; retrieval asks
whether a token is still told from the others. Raw cosines and their nulls are in
:mod:`posenc.metrics.similarity`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.similarity import token_cosines

# Tokens converted to float64 at a time, so that memory-mapped float16 arrays can be passed.
_BLOCK_TOKENS = 4096

# Largest number of cosines between tokens held at a time: 32 MB as float64.
_BLOCK_COSINES = 2**22


def centred_cosines(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Cosine of corresponding tokens, after each array's own mean token is subtracted.

    Parameters
    ----------
    x, y
        [tokens, d_model]: hidden states of the same tokens, of any float type.

    Returns
    -------
    float64 [tokens], in [-1, 1]. A shift and a positive scale of x or of y change nothing.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a token is the mean: its direction is
        then undefined.

    Notes
    -----
    The mean is taken over the tokens that are passed, so the result for one depends on all.
    """
    x, y = _checked_pair(x, y)  # [tokens, d_model] each
    return _shifted_cosines(x, y, _mean_and_sd(x)[0], _mean_and_sd(y)[0])


def standardised_cosines(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Cosine of corresponding tokens, after each dimension of either array is a z-score.

    Each dimension has its own mean over the tokens subtracted and is divided by its own standard
    deviation, in x and in y apart. A dimension that is constant over the tokens tells none from
    another: its z-score is 0 in the array where it is constant.

    Parameters
    ----------
    x, y
        [tokens, d_model]: hidden states of the same tokens, of any float type.

    Returns
    -------
    float64 [tokens], in [-1, 1]. A shift and a positive scale of any dimension of x or of y
    change nothing. Timkey and van Schijndel (2021).

    Raises
    ------
    ValueError
        As :func:`centred_cosines`.
    """
    x, y = _checked_pair(x, y)  # [tokens, d_model] each
    (x_mean, x_sd), (y_mean, y_sd) = _mean_and_sd(x), _mean_and_sd(y)  # [d_model] each
    # Where the deviation is 0 all deviations from the mean are 0, whatever divides them.
    x_scale, y_scale = np.where(x_sd > 0, x_sd, 1), np.where(y_sd > 0, y_sd, 1)  # [d_model] each
    return _shifted_cosines(x, y, x_mean, y_mean, x_scale, y_scale)


def linear_cka(x: ArrayLike, y: ArrayLike) -> float:
    """Linear centred kernel alignment of two representations of the same tokens.

    ||Yᵀ X||² / (||Xᵀ X|| ||Yᵀ Y||), with Frobenius norms and the mean token of each array
    subtracted: the form over dimensions, whose cost grows with the tokens and not their square.

    Parameters
    ----------
    x, y
        [tokens, d_x] and [tokens, d_y]: hidden states, of any float type.

    Returns
    -------
    float
        In [0, 1]; 1 for itself. Rotations, shifts and one scale for all dimensions change
        nothing. Kornblith et al. (2019), section 3, https://arxiv.org/abs/1905.00414.

    Raises
    ------
    ValueError
        If the numbers of tokens differ, a value is not finite, or all tokens of x, or of y, are
        the same.

    Notes
    -----
    The value for unrelated representations is above 0, and near 1 with fewer tokens than
    dimensions. Take many more tokens than dimensions, or compare with shuffled tokens.
    """
    x, y = np.asanyarray(x), np.asanyarray(y)  # [tokens, d_x], [tokens, d_y]
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or len(x) == 0:
        raise ValueError(f"shapes {x.shape} and {y.shape} are not [tokens, d_x] and [tokens, d_y]")
    x_mean, y_mean = _mean_and_sd(x)[0], _mean_and_sd(y)[0]  # [d_x], [d_y]
    xx = np.zeros((x.shape[1], x.shape[1]))  # [d_x, d_x]
    yy = np.zeros((y.shape[1], y.shape[1]))  # [d_y, d_y]
    yx = np.zeros((y.shape[1], x.shape[1]))  # [d_y, d_x]
    for block in _blocks(len(x), _BLOCK_TOKENS):
        a, b = x[block] - x_mean, y[block] - y_mean  # [block, d_x], [block, d_y]
        xx += a.T @ a
        yy += b.T @ b
        yx += b.T @ a
    x_norm, y_norm = np.linalg.norm(xx), np.linalg.norm(yy)
    if x_norm == 0 or y_norm == 0:
        raise ValueError("all tokens of a representation are the same: it has no geometry")
    # Rounding can pass 1 by a unit.
    return min(1.0, float(np.linalg.norm(yx) ** 2 / (x_norm * y_norm)))


def retrieval_at_1(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Whether the token of x nearest to a token of y, by the cosine, is its own counterpart.

    Where k tokens of x are nearest together and the counterpart is among them, the token of y
    gets 1 / k, what a guess among them gets right on average. Cosines within rounding,
    d_model · 2.2e-16, are together.

    Parameters
    ----------
    x, y
        [tokens, d_model]: hidden states of the same tokens, intact and under a condition, of any
        float type.

    Returns
    -------
    float64 [tokens], in [0, 1]: for each token of y. The mean is retrieval@1; its chance level is
    1 / tokens. The share of a document is the mean over its tokens.

    Raises
    ------
    ValueError
        If the shapes differ, or a token has norm zero or holds a value that is not finite.

    Notes
    -----
    Both arrays are copied as float64; the cosines between tokens are made block by block.
    """
    x, y = _checked_pair(x, y)  # [tokens, d_model] each
    x, y = _unit_rows(x), _unit_rows(y)  # [tokens, d_model] each
    tokens, d_model = x.shape
    # Equal tokens of x get cosines from sums in different orders. Each sum is off by less than
    # d_model units of rounding, half an eps, so two equal ones differ by less than twice that.
    rounding = d_model * np.finfo(np.float64).eps
    score = np.empty(tokens)  # [tokens]
    for block in _blocks(tokens, max(1, _BLOCK_COSINES // tokens)):
        cosines = y[block] @ x.T  # [block, tokens]
        own = np.diagonal(cosines, offset=block.start)  # [block]
        nearest = cosines.max(axis=1) - rounding  # [block]
        together = np.count_nonzero(cosines >= nearest[:, None], axis=1)  # [block]
        score[block] = np.where(own >= nearest, 1 / together, 0)
    return score


def _blocks(tokens: int, size: int) -> Iterator[slice]:
    for start in range(0, tokens, size):
        yield slice(start, min(start + size, tokens))


def _checked_pair(x: ArrayLike, y: ArrayLike) -> tuple[NDArray, NDArray]:
    x, y = np.asanyarray(x), np.asanyarray(y)  # [tokens, d_model] each
    if x.shape != y.shape or x.ndim != 2 or len(x) == 0:
        raise ValueError(f"shapes {x.shape} and {y.shape} are not the same [tokens, d_model]")
    return x, y


def _mean_and_sd(x: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation [d_model] each, exact where a dimension is constant."""
    first = x[0].astype(np.float64)  # [d_model]
    # About the first token, so that a constant dimension has no rounding left in it, which
    # a division by its standard deviation would blow up to full size.
    total = np.zeros_like(first)  # [d_model]
    for block in _blocks(len(x), _BLOCK_TOKENS):
        total += (x[block] - first).sum(axis=0)
    mean = first + total / len(x)  # [d_model]
    if not np.isfinite(mean).all():
        raise ValueError("a hidden state holds a value that is not finite")
    squares = np.zeros_like(first)  # [d_model]
    for block in _blocks(len(x), _BLOCK_TOKENS):
        squares += np.square(x[block] - mean).sum(axis=0)
    return mean, np.sqrt(squares / len(x))


def _shifted_cosines(
    x: NDArray,  # [tokens, d_model]
    y: NDArray,  # [tokens, d_model]
    x_mean: NDArray[np.float64],  # [d_model]
    y_mean: NDArray[np.float64],  # [d_model]
    x_scale: NDArray[np.float64] | float = 1.0,  # [d_model]
    y_scale: NDArray[np.float64] | float = 1.0,  # [d_model]
) -> NDArray[np.float64]:
    cosines = np.empty(len(x))  # [tokens]
    for block in _blocks(len(x), _BLOCK_TOKENS):
        a, b = (x[block] - x_mean) / x_scale, (y[block] - y_mean) / y_scale  # [block, d_model]
        cosines[block] = token_cosines(a, b)
    return cosines


def _unit_rows(x: NDArray) -> NDArray[np.float64]:
    x = x.astype(np.float64)  # [tokens, d_model]
    norms = np.linalg.norm(x, axis=1)  # [tokens]
    bad = ~(np.isfinite(norms) & (norms > 0))  # [tokens]
    if bad.any():
        raise ValueError(
            f"token {int(np.argmax(bad))} has a vector of norm zero or with a value that is not "
            f"finite: it has no nearest token"
        )
    x /= norms[:, None]
    return x
