"""How many keys an attention pattern reads: its entropy, as a number of equal keys.

A query that reads n keys alike has a pattern of entropy log n, so exp of the entropy counts keys
(the perplexity of the pattern; Hill (1973), order 1, https://doi.org/10.2307/1934352). Soft
attention reads many, hard attention (Xu et al. (2015), https://arxiv.org/abs/1502.03044) reads one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

PARTS = ("entropy", "others", "first", "largest")
"""What :func:`parts` gives of a query."""


def parts(pattern: ArrayLike) -> NDArray[np.float64]:
    """What each query's pattern says of how many keys it reads.

    Many heads look at the first key where they have nothing to read (Xiao et al. (2024),
    https://arxiv.org/abs/2309.17453), which makes a pattern sharp without reading anything sharply.
    So the entropy is also taken of what the other keys get, as shares of their sum.

    Parameters
    ----------
    pattern
        [..., keys]: rows sum to 1.

    Returns
    -------
    float64 [..., 4]: the entropy in nats, that of the keys after the first alone, the weight of the
    first key, and the largest weight (``PARTS``).
    """
    from scipy.special import entr

    p = np.asarray(pattern, np.float64)  # [..., keys]
    rest = p[..., 1:]  # [..., keys - 1]
    total = rest.sum(axis=-1, keepdims=True)  # [..., 1]
    shares = np.divide(rest, total, out=np.zeros_like(rest), where=total > 0)  # [..., keys - 1]
    entropies = entr(p).sum(axis=-1), entr(shares).sum(axis=-1)  # [...] each
    return np.stack([*entropies, p[..., 0], p.max(axis=-1)], axis=-1)
