"""Memory networks: the position encoding of words in a sentence, and tests against guessing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def word_positions(words: int, width: int) -> NDArray[np.float64]:
    """Weights of the words of a sentence: l_kj = (1 - j / J) - (k / d) (1 - 2 j / J).

    A sentence of J words is represented by Σ_j l_j ∘ A x_j, with j and k from 1. The weights of a
    component k sum to (J - 1) / 2 + k / d over the sentence.

    Parameters
    ----------
    words
        J, the words of the sentence.
    width
        d, the width of the embedding.

    Returns
    -------
    float64 [words, width]. Sukhbaatar et al. (2015), section 4.1, https://arxiv.org/abs/1503.08895.

    Raises
    ------
    ValueError
        If words or width is not positive.

    Examples
    --------
    >>> word_positions(2, 2).tolist()
    [[0.5, 0.5], [0.5, 1.0]]
    """
    if words < 1 or width < 1:
        raise ValueError(f"a sentence of {words} words and width {width} has no position encoding")
    j = np.arange(1, words + 1)[:, None] / words  # [words, 1]
    k = np.arange(1, width + 1)[None] / width  # [1, width]
    return (1 - j) - k * (1 - 2 * j)


class GuessTest(NamedTuple):
    """Wrong answers beside guesses.

    Attributes
    ----------
    level
        Share of wrong guesses.
    questions, wrong
        Of all seeds.
    p
        Probability that guesses have as few wrong answers or fewer.
    """

    level: float
    questions: int
    wrong: int
    p: float


def guess_test(errors: Sequence[float], questions: int, level: float) -> GuessTest:
    """Exact binomial test of whether answers are less often wrong than guesses.

    It is one-sided, since guesses are the best that can be done without what is not seen; worse is
    always possible. Questions of all seeds are pooled: under the hypothesis each is answered
    wrongly with the same probability, whatever the seed.

    Parameters
    ----------
    errors
        [seeds]: share of wrong answers.
    questions
        Test questions of each seed.
    level
        Share of wrong guesses, in (0, 1).

    Raises
    ------
    ValueError
        If the level is not in (0, 1), or an error is no share of so many questions.
    """
    from scipy import stats

    if not 0 < level < 1:
        raise ValueError(f"{level} is not the error of guesses: it must be between 0 and 1")
    wrong = np.asarray(errors, np.float64) * questions  # [seeds]
    whole = np.rint(wrong)
    if np.any(np.abs(wrong - whole) > 1e-6) or np.any(whole < 0) or np.any(whole > questions):
        raise ValueError(f"{list(errors)} are not shares of {questions} questions")
    total, count = int(whole.sum()), questions * len(whole)
    test = stats.binomtest(total, count, level, alternative="less")
    return GuessTest(level, count, total, float(test.pvalue))
