"""Reference levels of a language model: uniform, unigram and interpolated Kneser-Ney n-grams.

They say how much of a model's loss the frequencies of tokens and of short sequences already
explain. Every model gives each token of the vocabulary a probability above zero, and the first
token of a document, which nothing precedes, is never predicted. Ney, Essen and Kneser (1994),
*Computer Speech and Language* 8, 1-38 (absolute discounting); Kneser and Ney (1995), ICASSP
(continuation counts); Chen and Goodman (1999), *Computer Speech and Language* 13, 359-394
(interpolation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Tokens looked up at a time, so that a long text needs little memory beside the model itself.
_BLOCK_TOKENS = 2**20

# Discount where no n-gram has the count 1 and the estimate from the data would be 0 or undefined:
# what KenLM's lmplz takes for the count 1 under --discount_fallback.
_FALLBACK_DISCOUNT = 0.5


def uniform_nll(vocabulary_size: int) -> float:
    """Negative log-likelihood of a token under a uniform guess.

    Parameters
    ----------
    vocabulary_size
        Number of symbols V.

    Returns
    -------
    float
        log V, nats.

    Raises
    ------
    ValueError
        If there are no symbols.

    Examples
    --------
    >>> uniform_nll(1)
    0.0
    """
    if vocabulary_size < 1:
        raise ValueError(f"a vocabulary of {vocabulary_size} symbols has no distribution")
    return math.log(vocabulary_size)


class Unigram:
    """Frequency of each token, with add-one smoothing: (count + 1) / (predicted tokens + V).

    Laplace's rule is enough here: with far more training tokens than symbols, it moves little.

    Parameters
    ----------
    tokens
        int [tokens]: training documents, one after the other; may be a memory map.
    lengths
        int [documents]: tokens of each. The first token of a document is not counted.
    vocabulary_size
        Number of symbols V; tokens are below it.

    Raises
    ------
    ValueError
        If the tokens are not whole numbers in [0, V), or the lengths do not add up to them.

    Examples
    --------
    One document with the begin token 0; of three symbols, 1 is predicted twice and 2 once:

    >>> Unigram([0, 1, 1, 2], [4], vocabulary_size=3).probabilities().tolist()
    [0.16666666666666666, 0.5, 0.3333333333333333]
    """

    def __init__(self, tokens: ArrayLike, lengths: ArrayLike, vocabulary_size: int) -> None:
        tokens, positions = _checked(tokens, lengths, vocabulary_size)  # [tokens] each
        self.vocabulary_size = vocabulary_size
        counts = np.bincount(tokens[positions > 0], minlength=vocabulary_size)  # [vocabulary]
        self._probabilities = (counts + 1) / (counts.sum() + vocabulary_size)  # [vocabulary]

    def probabilities(self, context: Sequence[int] = ()) -> NDArray[np.float64]:
        """Probability of every token; the context is of no account.

        Returns
        -------
        float64 [vocabulary], with sum 1.
        """
        return self._probabilities.copy()

    def token_nll(self, tokens: ArrayLike, lengths: ArrayLike) -> NDArray[np.float64]:
        """Negative log-likelihood of all tokens but the first of each document.

        Parameters
        ----------
        tokens
            int [tokens]: documents, one after the other.
        lengths
            int [documents]: tokens of each.

        Returns
        -------
        float64 [scored tokens], nats, in the order of the documents.

        Raises
        ------
        ValueError
            As :class:`Unigram`.
        """
        tokens, positions = _checked(tokens, lengths, self.vocabulary_size)  # [tokens] each
        return -np.log(self._probabilities[tokens[positions > 0]])  # [scored tokens]


class KneserNey:
    """Interpolated Kneser-Ney n-gram model with one discount a level.

    With the context h, and h' the context without its first token,

        p(w | h) = max(a(h w) - D, 0) / a(h •) + D · N(h •) / a(h •) · p(w | h'),

    where a(h •) = Σ_w a(h w) and N(h •) counts the tokens w with a(h w) > 0; a context that was
    not seen leaves all to p(w | h'). Below the single token stands the uniform distribution.

    On the highest level a(g) is the count of the n-gram g. On lower levels it is the number of
    different tokens that precede g, plus the number of documents that begin with g: nothing
    precedes those, and their plain count is all there is. This is the adjusted count of Heafield
    et al. (2013), section 3.2, https://aclanthology.org/P13-2121. The first tokens of documents,
    which are not predicted, are not counted on the lowest level.

    The discount of a level is D = n₁ / (n₁ + 2 n₂), with n₁ and n₂ the numbers of n-grams with
    a = 1 and a = 2; where n₁ = 0, as on the lowest level of a large corpus, it is 0.5.

    Parameters
    ----------
    tokens
        int [tokens]: training documents, one after the other; may be a memory map.
    lengths
        int [documents]: tokens of each. No n-gram crosses the border of two documents.
    vocabulary_size
        Number of symbols V; tokens are below it.
    order
        Length of the longest n-gram, 2 (bigram) at least; V^order must stay below 2^63.

    Attributes
    ----------
    discounts
        D of the levels 1, ..., order.

    Raises
    ------
    ValueError
        If the tokens are not whole numbers in [0, V), the lengths do not add up to them, the order
        is out of range, or no document has as many tokens as the order.

    Examples
    --------
    >>> bigram = KneserNey([0, 1, 2, 1, 2, 0, 1, 1], [5, 3], vocabulary_size=4, order=2)
    >>> round(float(bigram.probabilities([1]).sum()), 12)
    1.0
    """

    def __init__(
        self, tokens: ArrayLike, lengths: ArrayLike, vocabulary_size: int, order: int
    ) -> None:
        if order < 2 or vocabulary_size**order >= 2**63:
            raise ValueError(
                f"order {order} with {vocabulary_size} symbols: the order must be 2 at least, and "
                f"the n-grams be numbered within 63 bits"
            )
        tokens, positions = _checked(tokens, lengths, vocabulary_size)  # [tokens] each
        if not np.any(positions >= order - 1):
            raise ValueError(f"no training document has {order} tokens")
        self.vocabulary_size = vocabulary_size
        self.order = order

        ends = np.flatnonzero(positions >= order - 1)  # [windows]: last token of each n-gram
        ngrams, counts = np.unique(
            _keys(tokens, ends, order, vocabulary_size), return_counts=True
        )  # [n-grams] each
        levels = [_Level.from_counts(ngrams, counts, vocabulary_size)]
        for n in range(order - 1, 1, -1):
            # Each different n-gram one longer is one different token before its last n tokens.
            preceded = ngrams % vocabulary_size**n  # [longer n-grams]
            begins = np.flatnonzero(positions == n - 1)  # [documents of n tokens or more]
            initial = _keys(tokens, begins, n, vocabulary_size)
            ngrams, counts = np.unique(np.concatenate([preceded, initial]), return_counts=True)
            levels.append(_Level.from_counts(ngrams, counts, vocabulary_size))
        self._levels = levels[::-1]  # of n = 2, ..., order

        counts = np.bincount(ngrams % vocabulary_size, minlength=vocabulary_size)  # [vocabulary]
        discount = _discount(counts)
        left_over = discount * np.count_nonzero(counts)
        self._unigram = (
            np.maximum(counts - discount, 0) + left_over / vocabulary_size
        ) / counts.sum()  # [vocabulary]
        self.discounts = (discount, *(level.discount for level in self._levels))

    def probabilities(self, context: Sequence[int] = ()) -> NDArray[np.float64]:
        """Probability of every token after a context.

        Parameters
        ----------
        context
            The tokens before; the last ``order - 1`` of them are used, or all if there are fewer.

        Returns
        -------
        float64 [vocabulary], with sum 1.

        Raises
        ------
        ValueError
            If a token of the context is not in [0, V).
        """
        before = np.array(context, dtype=np.int64)  # [context]
        before, _ = _checked(before, [len(before)], self.vocabulary_size)
        every = np.arange(self.vocabulary_size)  # [vocabulary]
        end = np.array([len(before) - 1])  # [1]
        probabilities = self._unigram.copy()  # [vocabulary]
        for n, level in enumerate(self._levels[: len(before)], start=2):
            history = _keys(before, end, n - 1, self.vocabulary_size)  # [1]
            probabilities = level.interpolated(history, every, probabilities)
        return probabilities

    def token_nll(self, tokens: ArrayLike, lengths: ArrayLike) -> NDArray[np.float64]:
        """Negative log-likelihood of all tokens but the first of each document.

        A token is predicted from the ``order - 1`` tokens before it in its document; near the
        beginning there are fewer, and the model of that lower order predicts it. Parameters, result
        and errors are those of :meth:`Unigram.token_nll`.
        """
        tokens, positions = _checked(tokens, lengths, self.vocabulary_size)  # [tokens] each
        scored = np.flatnonzero(positions > 0)  # [scored tokens]
        nll = np.empty(len(scored))  # [scored tokens]
        for start in range(0, len(scored), _BLOCK_TOKENS):
            ends = scored[start : start + _BLOCK_TOKENS]  # [block]
            probabilities = self._unigram[tokens[ends]]  # [block]
            for n, level in enumerate(self._levels, start=2):
                inside = positions[ends] >= n - 1  # [block]: the n-gram is within the document
                at = ends[inside]  # [inside]
                history = _keys(tokens, at - 1, n - 1, self.vocabulary_size)  # [inside]
                probabilities[inside] = level.interpolated(
                    history, tokens[at], probabilities[inside]
                )
            nll[start : start + len(ends)] = -np.log(probabilities)
        return nll


@dataclass(frozen=True, eq=False)
class _Level:
    """The n-grams of one length as sorted numbers, and the sums of their contexts."""

    vocabulary_size: int
    discount: float
    ngrams: NDArray[np.int64]  # [n-grams], increasing
    counts: NDArray[np.int64]  # [n-grams]: a(h w)
    contexts: NDArray[np.int64]  # [contexts], increasing
    totals: NDArray[np.int64]  # [contexts]: a(h •)
    followers: NDArray[np.int64]  # [contexts]: N(h •)

    @classmethod
    def from_counts(
        cls, ngrams: NDArray[np.int64], counts: NDArray[np.int64], vocabulary_size: int
    ) -> _Level:
        # Sorted n-grams have sorted contexts, so those of one context stand side by side.
        contexts, starts, followers = np.unique(
            ngrams // vocabulary_size, return_index=True, return_counts=True
        )  # [contexts] each
        totals = np.add.reduceat(counts, starts)  # [contexts]
        discount = _discount(counts)
        return cls(vocabulary_size, discount, ngrams, counts, contexts, totals, followers)

    def interpolated(
        self,
        context: NDArray[np.int64],  # [tokens], or [1] for all tokens
        token: NDArray[np.int64],  # [tokens]
        lower: NDArray[np.float64],  # [tokens]: p(w | h')
    ) -> NDArray[np.float64]:
        row, is_seen = _find(self.contexts, context)  # [tokens] or [1] each
        entry, is_counted = _find(self.ngrams, context * self.vocabulary_size + token)  # [tokens]
        count = np.where(is_counted, self.counts[entry], 0)  # [tokens]
        discounted = np.maximum(count - self.discount, 0)  # [tokens]
        left_over = self.discount * self.followers[row]  # [tokens] or [1]
        return np.where(is_seen, (discounted + left_over * lower) / self.totals[row], lower)


def _discount(counts: NDArray[np.int64]) -> float:
    once, twice = (int(np.count_nonzero(counts == count)) for count in (1, 2))
    return once / (once + 2 * twice) if once else _FALLBACK_DISCOUNT


def _keys(
    tokens: NDArray[np.int64], ends: NDArray[np.int64], n: int, vocabulary_size: int
) -> NDArray[np.int64]:
    """Number the n-grams that end at ``ends``: their tokens are the digits in base V."""
    keys = tokens[ends - n + 1]  # [ends]
    for back in range(n - 2, -1, -1):
        keys = keys * vocabulary_size + tokens[ends - back]
    return keys


def _find(
    increasing: NDArray[np.int64], keys: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Index of each key, and whether it is there at all."""
    # In increasing order, neighbouring keys are found in the same part of memory: much faster.
    order = np.argsort(keys)  # [keys]
    index = np.empty(len(keys), dtype=np.int64)  # [keys]
    index[order] = np.searchsorted(increasing, keys[order])
    np.minimum(index, len(increasing) - 1, out=index)
    return index, increasing[index] == keys


def _checked(
    tokens: ArrayLike, lengths: ArrayLike, vocabulary_size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens in 64 bits, which n-grams are numbered in, and their positions in the documents."""
    tokens, lengths = np.asarray(tokens), np.asarray(lengths)  # [tokens], [documents]
    for name, values in (("tokens", tokens), ("lengths", lengths)):
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"{name} must be a row of whole numbers")
    if np.any(lengths < 0) or lengths.sum() != len(tokens):
        raise ValueError(f"the lengths of the documents do not add up to {len(tokens)} tokens")
    if len(tokens) and not (tokens.min() >= 0 and tokens.max() < vocabulary_size):
        raise ValueError(f"a token is not in [0, {vocabulary_size})")
    lengths = lengths.astype(np.int64)  # [documents]
    starts = np.cumsum(lengths) - lengths  # [documents]
    return tokens.astype(np.int64), np.arange(len(tokens)) - np.repeat(starts, lengths)
