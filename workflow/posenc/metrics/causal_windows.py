"""Which tokens a token sees: all before it, the last few, all of the document.

Windows of the last tokens, and how far they reach layer upon layer: Beltagy et al. (2020),
https://arxiv.org/abs/2004.05150, section 3.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def visible(
    tokens: int, *, is_causal: bool = True, window: int | None = None, has_first: bool = True
) -> NDArray[np.bool_]:
    """Which keys each query attends to.

    Parameters
    ----------
    tokens
        Of a document.
    is_causal
        Whether keys after the query are hidden.
    window
        Hide the keys that are so many tokens before the query, or more; the query is one of them.
    has_first
        Whether the first key is seen by other queries than its own.

    Returns
    -------
    bool [tokens, tokens]: queries by keys.

    Examples
    --------
    >>> visible(3, window=2).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    query, key = np.indices((tokens, tokens))  # [tokens, tokens] each
    seen = np.ones((tokens, tokens), bool)  # [tokens, tokens]
    if is_causal:
        seen &= key <= query
    if window is not None:
        seen &= query - key < window
    if not has_first:
        seen &= (key > 0) | (query == 0)
    return seen


def receptive_field(layers: int, window: int) -> int:
    """Tokens that a hidden state after some layers depends on, itself included: L (w - 1) + 1.

    Each layer reaches w - 1 tokens further back. A token at position p, from 0, depends on the
    first one exactly if p is less than this.

    Examples
    --------
    >>> [receptive_field(layers, 4) for layers in range(4)]
    [1, 4, 7, 10]
    """
    return layers * (window - 1) + 1
