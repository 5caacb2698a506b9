"""Draws, frozen features and chance levels of experiments that train classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.metrics.bootstrap import Estimate

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

TokenIds = Sequence[int] | NDArray[np.int64]
INVERSE_PENALTIES = tuple(10.0**exponent for exponent in range(-5, 3))
"""What the regularisation of the logistic regression is chosen from; the smaller the stronger."""
BAG_PENALTIES = tuple(10.0**exponent for exponent in range(-2, 5))
"""The same of a bag of words, whose vectors have length 1."""
LEAST_DEVIATION = 1e-3
"""Of the root mean square entry: features that deviate less are divided by no less than that. The
rounding of a model that is blind to order depends on the order, and would be read when blown up."""


def balanced_rows(
    labels: ArrayLike, sizes: Mapping[str, int], generator: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Draw disjoint sets of rows, in each of which both labels are equally frequent.

    Parameters
    ----------
    labels
        bool [rows].
    sizes
        How many rows each set gets; of an odd number, the first label has one more.
    generator
        Source of the draws.

    Returns
    -------
    dict of int64 [size]
        Rising row numbers of each set.

    Raises
    ------
    ValueError
        If there are too few rows of a label.
    """
    labels = np.asarray(labels, bool)  # [rows]
    shares = {name: ((size + 1) // 2, size // 2) for name, size in sizes.items()}
    sets: dict[str, list[NDArray[np.int64]]] = {name: [] for name in sizes}
    for label in (False, True):
        rows = generator.permutation(np.flatnonzero(labels == label))  # [rows of the label]
        wanted = [share[int(label)] for share in shares.values()]
        if sum(wanted) > len(rows):
            raise ValueError(f"{sum(wanted)} rows of a label are asked for, and it has {len(rows)}")
        parts = np.split(rows, np.cumsum(wanted))[:-1]
        for name, part in zip(sizes, parts, strict=True):
            sets[name].append(part)
    return {name: np.sort(np.concatenate(parts)) for name, parts in sets.items()}


@dataclass(frozen=True)
class Frozen:
    """Logistic regression on features that are not trained.

    Attributes
    ----------
    regression
        Fitted to standardised features.
    mean, deviation
        float64 [d_model]: of the training documents, by which features are standardised.
    inverse_penalty
        C, the chosen regularisation.
    validation_loss
        Mean cross-entropy on the validation documents, in nats.
    """

    regression: LogisticRegression
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    inverse_penalty: float
    validation_loss: float

    @classmethod
    def fit(
        cls,
        training: ArrayLike,
        labels: ArrayLike,
        validation: ArrayLike,
        validation_labels: ArrayLike,
        inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
    ) -> Frozen:
        """Fit with each regularisation, and keep the one with the lowest validation loss.

        min_w ½‖w‖² + C Σ log(1 + exp(-y (w·x + b))), where x is standardised by mean and standard
        deviation of the training documents (at least :data:`LEAST_DEVIATION`).

        Parameters
        ----------
        training, validation
            [documents, d_model]: features.
        labels, validation_labels
            bool [documents] each.
        inverse_penalties
            Values of C; of equal ones the first is kept.

        Raises
        ------
        ValueError
            If training documents have one label only, or a feature is not finite.
        """
        training = np.asarray(training, np.float64)  # [documents, d_model]
        if not np.isfinite(training).all():
            raise ValueError("features must be finite")
        least = LEAST_DEVIATION * np.sqrt(np.mean(np.square(training)))
        mean, deviation = training.mean(axis=0), training.std(axis=0)  # [d_model] each
        deviation = np.maximum(deviation, least or 1.0)  # [d_model]
        x = (training - mean) / deviation  # [documents, d_model]
        held_out = (np.asarray(validation, np.float64) - mean) / deviation
        chosen = _chosen(x, labels, held_out, validation_labels, inverse_penalties)
        return cls(chosen.regression, mean, deviation, chosen.inverse_penalty, chosen.loss)

    def predict(self, features: ArrayLike) -> NDArray[np.bool_]:
        """Labels of features [documents, d_model], bool [documents]."""
        x = (np.asarray(features, np.float64) - self.mean) / self.deviation
        return self.regression.predict(x)


@dataclass(frozen=True)
class BagOfWords:
    """Logistic regression on the words of a document, blind to their order.

    A document is the vector of its tokens' counts, each times the logarithm of how rare the token
    is, at length 1 (TF-IDF as scikit-learn has it; Salton and Buckley, 1988,
    https://doi.org/10.1016/0306-4573(88)90021-0).

    Attributes
    ----------
    vectors
        Makes the vector of a document, with the rarities of the training documents.
    regression
        Fitted to them.
    inverse_penalty, validation_loss
        As of :class:`Frozen`.
    """

    vectors: TfidfVectorizer
    regression: LogisticRegression
    inverse_penalty: float
    validation_loss: float

    @classmethod
    def fit(
        cls,
        training: Sequence[TokenIds],
        labels: ArrayLike,
        validation: Sequence[TokenIds],
        validation_labels: ArrayLike,
        inverse_penalties: Sequence[float] = BAG_PENALTIES,
    ) -> BagOfWords:
        """Fit with each regularisation, and keep the one with the lowest validation loss.

        Parameters
        ----------
        training, validation
            Token ids of each document.
        labels, validation_labels, inverse_penalties
            As of :meth:`Frozen.fit`.

        Raises
        ------
        ValueError
            If training documents have one label only.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectors = TfidfVectorizer(analyzer=list)
        x = vectors.fit_transform(training)  # sparse [documents, different tokens]
        held_out = vectors.transform(validation)
        chosen = _chosen(x, labels, held_out, validation_labels, inverse_penalties)
        return cls(vectors, chosen.regression, chosen.inverse_penalty, chosen.loss)

    def predict(self, documents: Sequence[TokenIds]) -> NDArray[np.bool_]:
        """Labels of documents given by their token ids, bool [documents]."""
        return self.regression.predict(self.vectors.transform(documents))


class _Chosen(NamedTuple):
    regression: LogisticRegression
    inverse_penalty: float
    loss: float


def _chosen(
    x: Any,  # [documents, features]
    labels: ArrayLike,
    held_out: Any,  # [validation documents, features]
    validation_labels: ArrayLike,
    inverse_penalties: Sequence[float],
) -> _Chosen:
    """The logistic regression whose regularisation has the lowest validation loss."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    labels = np.asarray(labels, bool)  # [documents]
    if np.all(labels == labels[:1]):
        raise ValueError("all training documents have the same label")
    best: _Chosen | None = None
    for inverse_penalty in inverse_penalties:
        regression = LogisticRegression(C=inverse_penalty, max_iter=1000)
        with warnings.catch_warnings():
            # Without much regularisation separable documents have no optimum to reach.
            warnings.simplefilter("ignore", ConvergenceWarning)
            regression.fit(x, labels)
        chances = regression.predict_proba(held_out)  # [validation documents, 2]
        loss = float(log_loss(np.asarray(validation_labels, bool), chances, labels=[False, True]))
        if best is None or loss < best.loss:
            best = _Chosen(regression, float(inverse_penalty), loss)
    if best is None:
        raise ValueError("there is no inverse penalty to choose from")
    return best


class RelativeChanges(TypedDict):
    """‖b - a‖ / ‖a‖ over pairs of vectors."""

    mean: float
    largest: float


def relative_changes(before: ArrayLike, after: ArrayLike) -> RelativeChanges:
    """‖b - a‖ / ‖a‖ of each pair of vectors: mean and largest.

    Parameters
    ----------
    before, after
        [documents, d_model] each: a and b; no row of a is zero.

    Raises
    ------
    ValueError
        If the shapes differ, or a row of ``before`` is zero.
    """
    before, after = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if before.shape != after.shape:
        raise ValueError(f"shapes {before.shape} and {after.shape} differ")
    norms = np.linalg.norm(before, axis=1)  # [documents]
    if not norms.all():
        raise ValueError("a vector is zero: no change is relative to it")
    changes = np.linalg.norm(after - before, axis=1) / norms  # [documents]
    return {"mean": float(changes.mean()), "largest": float(changes.max())}


class ChanceTest(NamedTuple):
    """Right answers against guessing.

    Attributes
    ----------
    correct, documents
        Right answers, and how many there are.
    accuracy
        Their share, with its interval.
    p_value
        Two-sided.
    """

    correct: int
    documents: int
    accuracy: Estimate
    p_value: float


def chance_test(correct: int, documents: int, confidence: float = 0.95) -> ChanceTest:
    """Exact two-sided binomial test of an accuracy against guessing, p = 1/2.

    Where each label is a fair coin that the classifier cannot see, the number of right answers is
    binomial exactly, whatever the classifier answers.

    Parameters
    ----------
    correct, documents
        Right answers, and how many there are.
    confidence
        Of the interval of Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404.
    """
    from scipy import stats

    test = stats.binomtest(correct, documents, 0.5)
    interval = test.proportion_ci(confidence, method="exact")
    accuracy = Estimate(correct / documents, float(interval.low), float(interval.high))
    return ChanceTest(int(correct), int(documents), accuracy, float(test.pvalue))
