"""Perplexity of a language model, from negative log-likelihoods (nll) in nats.

The headline is the corpus perplexity, exp of the mean nll over all tokens: the mean of the
perplexities of sequences depends on how the text is cut. Jurafsky and Martin, *Speech and
Language Processing*, 3rd edition, chapter 3; Jelinek et al. (1977),
https://doi.org/10.1121/1.2016299.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate, Seed, paired_ratio_bootstrap, ratio_bootstrap

# A uniform model's losses, computed in float32, differ from log V by rounding alone. A token
# counts as worse than uniform only beyond this share of log V.
_ROUNDING = 1e-5


def entropy(probabilities: ArrayLike, base: float = math.e) -> NDArray[np.float64]:
    """Shannon entropy; the perplexity of a distribution is ``base ** entropy``, in any base.

    Parameters
    ----------
    probabilities
        [..., symbols], not negative, with sum 1 over the last axis.
    base
        Base of the logarithm: e for nats, 2 for bits.

    Returns
    -------
    float64 [...].

    Raises
    ------
    ValueError
        If a probability is negative or the sum is not 1 to 1e-6.

    Examples
    --------
    >>> float(entropy([0.25, 0.25, 0.25, 0.25], base=2))
    2.0
    """
    from scipy.special import entr

    probabilities = np.asarray(probabilities, np.float64)  # [..., symbols]
    sums = probabilities.sum(axis=-1)  # [...]
    if np.any(probabilities < 0) or not np.allclose(sums, 1, rtol=0, atol=1e-6):
        raise ValueError("probabilities must not be negative, and must have the sum 1")
    return entr(probabilities).sum(axis=-1) / math.log(base)


def nll_per_token(
    nll: ArrayLike, tokens: ArrayLike, *, samples: int, confidence: float, seed: Seed
) -> Estimate:
    """Mean negative log-likelihood of a token: the cross-entropy in nats.

    Parameters
    ----------
    nll
        [documents]: summed negative log-likelihood of each document, nats.
    tokens
        [documents]: scored tokens of each document.
    samples, confidence, seed
        Of the bootstrap over documents, see :func:`posenc.metrics.bootstrap.ratio_bootstrap`.

    Returns
    -------
    Estimate
        Nats per token.

    Raises
    ------
    ValueError
        As :func:`posenc.metrics.bootstrap.ratio_bootstrap`.
    """
    return ratio_bootstrap(nll, tokens, samples, confidence, seed)


def corpus_perplexity(
    nll: ArrayLike, tokens: ArrayLike, *, samples: int, confidence: float, seed: Seed
) -> Estimate:
    """Corpus perplexity: exp(sum of nll / sum of tokens).

    Parameters and errors as :func:`nll_per_token`. The bounds are exp of its bounds.

    Examples
    --------
    A model that is uniform over 8 symbols:

    >>> tokens = np.array([3, 5])
    >>> estimate = corpus_perplexity(
    ...     tokens * np.log(8), tokens, samples=100, confidence=0.95, seed=0
    ... )
    >>> round(estimate.value, 9)
    8.0
    """
    return ratio_bootstrap(nll, tokens, samples, confidence, seed, np.exp)


def sequence_perplexity(nll: ArrayLike, tokens: ArrayLike) -> dict[str, float]:
    """Mean and median over documents of the document's own perplexity.

    Parameters
    ----------
    nll
        [documents]: summed negative log-likelihood of each document, nats.
    tokens
        [documents]: scored tokens of each document. Documents without any are left out.

    Returns
    -------
    dict
        ``mean`` and ``median``. By Jensen's inequality the mean is never below exp of the mean of
        the documents' nll per token; a few short documents can carry it far above the median.

    Raises
    ------
    ValueError
        If no document has a scored token.
    """
    nll, tokens = np.asarray(nll, np.float64), np.asarray(tokens)  # [documents] each
    scored = tokens > 0  # [documents]
    if not scored.any():
        raise ValueError("no document has a scored token")
    perplexities = np.exp(nll[scored] / tokens[scored])  # [scored documents]
    return {"mean": float(perplexities.mean()), "median": float(np.median(perplexities))}


def bits_per_byte(
    nll: ArrayLike, utf8_bytes: ArrayLike, *, samples: int, confidence: float, seed: Seed
) -> Estimate:
    """Bits a byte of UTF-8 text: comparable between tokenizers, as perplexity is not.

    Parameters
    ----------
    nll
        [documents]: summed negative log-likelihood of each document, nats.
    utf8_bytes
        [documents]: length of the text of the scored tokens of each document, in UTF-8 bytes.
    samples, confidence, seed
        Of the bootstrap over documents.

    Returns
    -------
    Estimate
        sum(nll) / (log 2 · sum(utf8_bytes)). Gao et al. (2020), section 3.1,
        https://arxiv.org/abs/2101.00027.

    Raises
    ------
    ValueError
        As :func:`posenc.metrics.bootstrap.ratio_bootstrap`.
    """
    bits = np.asarray(nll, np.float64) / math.log(2)  # [documents]
    return ratio_bootstrap(bits, utf8_bytes, samples, confidence, seed)


def share_worse_than_uniform(
    token_nll: ArrayLike,
    tokens: ArrayLike,
    vocabulary_size: int,
    *,
    samples: int,
    confidence: float,
    seed: Seed,
) -> Estimate:
    """Share of tokens that get less probability than a uniform guess would give them.

    Parameters
    ----------
    token_nll
        [sum of tokens]: negative log-likelihood of each token in nats, document after document.
    tokens
        [documents]: scored tokens of each document.
    vocabulary_size
        Number of symbols V; a uniform guess costs log V nats. A token counts when its nll
        exceeds log V by more than float32 rounding, one part in 100,000.
    samples, confidence, seed
        Of the bootstrap over documents.

    Returns
    -------
    Estimate
        Share in [0, 1].

    Raises
    ------
    ValueError
        If the lengths do not fit, and as
        :func:`posenc.metrics.bootstrap.ratio_bootstrap`.
    """
    token_nll, tokens = np.asarray(token_nll), np.asarray(tokens)  # [all tokens], [documents]
    if len(token_nll) != tokens.sum():
        raise ValueError(f"{len(token_nll)} losses for {tokens.sum()} tokens")
    is_worse = token_nll > math.log(vocabulary_size) * (1 + _ROUNDING)  # [all tokens]
    document = np.repeat(np.arange(len(tokens)), tokens)  # [all tokens]
    worse = np.bincount(document[is_worse], minlength=len(tokens))  # [documents]
    return ratio_bootstrap(worse, tokens, samples, confidence, seed)


def delta_nll(
    condition: ArrayLike,
    intact: ArrayLike,
    tokens: ArrayLike,
    *,
    samples: int,
    confidence: float,
    seed: Seed,
) -> Estimate:
    """Mean change of a token's nll under a condition, paired by document.

    Parameters
    ----------
    condition, intact
        [documents]: summed negative log-likelihood of each document under either, nats.
    tokens
        [documents]: scored tokens of each document, the same under both.
    samples, confidence, seed
        Of the bootstrap over documents.

    Returns
    -------
    Estimate
        Nats per token, condition minus intact.

    Raises
    ------
    ValueError
        As :func:`posenc.metrics.bootstrap.paired_ratio_bootstrap`.
    """
    return paired_ratio_bootstrap(condition, intact, tokens, samples, confidence, seed)


def perplexity_ratio(
    condition: ArrayLike,
    intact: ArrayLike,
    tokens: ArrayLike,
    *,
    samples: int,
    confidence: float,
    seed: Seed,
) -> Estimate:
    """Corpus perplexity under a condition over the intact one: exp of :func:`delta_nll`.

    Parameters and errors as :func:`delta_nll`.
    """
    return paired_ratio_bootstrap(condition, intact, tokens, samples, confidence, seed, np.exp)
