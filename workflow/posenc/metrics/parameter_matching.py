"""How many parameters a Transformer and an LSTM have, and the width that makes them equal (D5).

Neither count has the table of token embeddings, which is the same in both, nor a classifier.
"""

from __future__ import annotations

import math


def transformer_parameters(n_layers: int, d_model: int, positions: int) -> int:
    """Parameters of a decoder of GPT-2's architecture, without its token embeddings.

    A block has 12 d² + 13 d: attention 4 d² + 4 d, the feed-forward network of width 4 d has
    8 d² + 5 d, two layer norms 4 d. Position embeddings are positions × d, the last layer norm 2 d.

    Parameters
    ----------
    n_layers, d_model
        Blocks, and their width d.
    positions
        Rows of the table of position embeddings.

    Raises
    ------
    ValueError
        If a size is less than 1.

    References
    ----------
    Radford et al. (2018), section 4.1.
    """
    _check(n_layers=n_layers, d_model=d_model, positions=positions)
    return n_layers * (12 * d_model**2 + 13 * d_model) + (positions + 2) * d_model


def lstm_parameters(d_model: int, width: int) -> int:
    """Parameters of one LSTM layer and of the map from its units back to the embeddings' width.

    Four gates have 4 h (d + h) weights and two biases of 4 h each, as in ``torch.nn.LSTM``; the
    map has h d weights and d biases: 4 h² + (5 d + 8) h + d.

    Parameters
    ----------
    d_model
        Width d of the token embeddings.
    width
        Units h of the LSTM.

    Raises
    ------
    ValueError
        If a size is less than 1.

    References
    ----------
    Hochreiter and Schmidhuber (1997), with the forget gate of Gers et al. (2000).
    """
    _check(d_model=d_model, width=width)
    return 4 * width * (d_model + width) + 8 * width + width * d_model + d_model


def lstm_width(target: int, d_model: int) -> int:
    """The width whose :func:`lstm_parameters` are nearest to a number, the smaller of two.

    The positive root of 4 h² + (5 d + 8) h + d = target lies between two whole widths.

    Parameters
    ----------
    target
        Parameters to have.
    d_model
        Width of the token embeddings.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ValueError
        If a number is less than 1.

    Examples
    --------
    >>> lstm_width(lstm_parameters(64, 125), 64)
    125
    """
    _check(target=target, d_model=d_model)
    linear = 5 * d_model + 8
    root = (math.isqrt(linear**2 + 16 * max(0, target - d_model)) - linear) // 8
    candidates = [max(1, root), max(1, root) + 1]
    return min(candidates, key=lambda width: abs(lstm_parameters(d_model, width) - target))


def relative_difference(count: int, other: int) -> float:
    """How far two counts are apart, as a share of the larger.

    Raises
    ------
    ValueError
        If a count is less than 1.
    """
    _check(one=count, other=other)
    return abs(count - other) / max(count, other)


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")
