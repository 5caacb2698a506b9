"""Position read from hidden states by linear and by two-layer ReLU probes.

A probe is fitted to some documents and tried on others: all tokens of a document are in one fold,
so what a document's tokens share can not be learnt by heart. Alain and Bengio (2017),
https://arxiv.org/abs/1610.01644 (linear probes); Hewitt and Liang (2019),
https://doi.org/10.18653/v1/D19-1275 (control tasks); Haviv et al. (2022),
https://doi.org/10.18653/v1/2022.findings-emnlp.99 (position by a two-layer ReLU probe).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

_RIDGE_PENALTY = 1.0
_LOGISTIC_INVERSE_PENALTY = 1.0
# A few thousand tokens are learnt by heart with the library's own 1e-4. Of positions chosen on
# generated reviews, of 1, 3, 6 and 10.
_POSITION_PENALTY, _ORDER_PENALTY = 3.0, 1.0
# Of Adam. With the library's own 1e-3, a few dozen epochs leave the ReLU probe worse than ridge
# regression; on pairs, which are noisier, 1e-2 leaves it worse than logistic regression.
_POSITION_RATE, _ORDER_RATE = 1e-2, 3e-3
_LOGISTIC_STEPS = 200


def token_pairs(
    documents: ArrayLike, pairs: int, seed: int | np.random.SeedSequence
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw random pairs of different tokens of one document.

    The first is drawn from all tokens of documents that have two at least, the second from the
    others of its document; each with replacement between pairs.

    Parameters
    ----------
    documents
        int [tokens]: document of each token.
    pairs
        How many.
    seed
        Seed of the generator.

    Returns
    -------
    int64 [pairs] and int64 [pairs]
        Indices of tokens.

    Raises
    ------
    ValueError
        If no document has two tokens.

    Examples
    --------
    >>> first, second = token_pairs([7, 8, 7], 3, seed=0)
    >>> sorted({*first.tolist(), *second.tolist()})
    [0, 2]
    """
    documents = np.asarray(documents)  # [tokens]
    order = np.argsort(documents, kind="stable")  # [tokens]
    _, begin, count = np.unique(documents[order], return_index=True, return_counts=True)
    group = np.repeat(np.arange(len(count)), count)  # [tokens], in order
    candidates = np.flatnonzero(count[group] > 1)  # [tokens of such documents]
    if len(candidates) == 0:
        raise ValueError("no document has two tokens to make a pair of")
    generator = np.random.default_rng(seed)
    first = candidates[generator.integers(len(candidates), size=pairs)]  # [pairs], in order
    rank = first - begin[group[first]]  # [pairs], within the document
    step = 1 + generator.integers(count[group[first]] - 1)  # [pairs], to another of its tokens
    second = begin[group[first]] + (rank + step) % count[group[first]]  # [pairs], in order
    return order[first], order[second]


def position_errors(
    hidden: ArrayLike,
    positions: ArrayLike,
    documents: ArrayLike,
    *,
    folds: int,
    hidden_units: int,
    epochs: int,
    seed: int,
    relu_control: bool = True,
) -> dict[str, NDArray[np.float64]]:
    """Absolute errors |p̂ - p| of the absolute position, each token predicted out of fold.

    Predictions are clipped to the positions of the training folds. Both probes minimise the
    squared error with an L2 penalty: ridge regression p̂ = w·x + b in closed form, and
    p̂ = v·max(0, Wx + a) + b by Adam with a fixed number of epochs. Entries of x are standardised
    by the training folds, and the ReLU probe is given w·x as one entry more. It could say the same
    without, but where position lies in directions of little variance Adam does not get there.

    Parameters
    ----------
    hidden
        [tokens, d_model]: hidden states.
    positions
        [tokens]: position of each in its document, in tokens.
    documents
        int [tokens]: document of each. All tokens of a document are in one fold.
    folds
        Number of folds.
    hidden_units, epochs
        Size of the ReLU probe, and how often it sees each token of the training folds, or each
        pair in both orders.
    seed
        Of the folds, the shuffled labels, and the ReLU probe's initial weights and batches.
    relu_control
        Whether the ReLU probe is fitted to shuffled labels, too.

    Returns
    -------
    dict of float64 [tokens], in tokens
        ``constant``: of the training folds' median, which no other constant beats: chance;
        ``ridge`` and ``relu``: of the probes; ``ridge_control`` and ``relu_control``: of the same
        probes where positions are permuted among all tokens, which can not beat chance.

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is not finite, there are fewer documents than folds, or
        all positions are the same.
    """
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    hidden, documents = _checked_hidden(hidden, documents)
    positions = np.asarray(positions, np.float64)  # [tokens]
    if positions.shape != documents.shape:
        raise ValueError(f"{positions.shape} positions for {documents.shape} documents of tokens")
    if not np.isfinite(positions).all() or np.ptp(positions) == 0:
        raise ValueError("positions must be finite and not all the same")
    shuffled = np.random.default_rng((seed, 1)).permutation(positions)  # [tokens]
    targets = np.stack([positions, shuffled], axis=1)  # [tokens, 2]
    names = ["constant", "ridge", "relu", "ridge_control"] + ["relu_control"] * relu_control
    errors = {name: np.empty(len(positions)) for name in names}
    for train, test in _splits(documents, folds, seed):
        scaler = StandardScaler().fit(hidden[train])
        x, unseen = scaler.transform(hidden[train]), scaler.transform(hidden[test])
        # Both labels in one solution: the ridge control costs nothing.
        ridge = Ridge(alpha=_RIDGE_PENALTY, solver="cholesky").fit(x, targets[train])
        there, here = ridge.predict(x), ridge.predict(unseen)  # [train, 2], [test, 2]
        predicted = dict(zip(("ridge", "ridge_control"), here.T, strict=True))
        predicted["constant"] = np.full(len(test), np.median(positions[train]))
        for label, name in enumerate(("relu", "relu_control")):
            if name in errors:
                column = slice(label, label + 1)
                predicted[name] = _relu_regression(
                    np.hstack([x, _standardised(there[:, column], there[:, column])]),
                    targets[train, label],
                    np.hstack([unseen, _standardised(here[:, column], there[:, column])]),
                    hidden_units,
                    epochs,
                    seed,
                )
        for name, values in predicted.items():  # [test] each
            truth = shuffled if name.endswith("control") else positions  # [tokens]
            possible = np.clip(values, truth[train].min(), truth[train].max())  # [test]
            errors[name][test] = np.abs(possible - truth[test])
    return errors


def order_errors(
    first: ArrayLike,
    second: ArrayLike,
    first_is_later: ArrayLike,
    documents: ArrayLike,
    *,
    folds: int,
    hidden_units: int,
    epochs: int,
    seed: int,
    relu_control: bool = True,
) -> dict[str, NDArray[np.float64]]:
    """Errors in telling which of two tokens of a document comes later, each pair out of fold.

    Both probes are antisymmetric: swapping the tokens turns the answer around, so the chance level
    is 0.5 exactly, however the pairs are presented. The linear one is logistic regression on
    h_i - h_j without an intercept, standardised without centring: of all linear rules on the
    concatenation (h_i, h_j), these are the antisymmetric ones. A ReLU probe would lose by the
    difference what is not linear in each token, so it sees the concatenation, in both orders, and
    answers by the sign of s(h_i, h_j) - s(h_j, h_i), where s is its log-odds that i is later. As
    for positions, what the linear probe makes of the pair is one entry more.

    Parameters
    ----------
    first, second
        [pairs, d_model]: hidden states of the two tokens.
    first_is_later
        bool [pairs]: whether the first token has the larger position.
    documents
        int [pairs]: document of each pair. All pairs of a document are in one fold.
    folds, hidden_units, epochs, seed, relu_control
        As :func:`position_errors`.

    Returns
    -------
    dict of float64 [pairs]
        0 for right, 1 for wrong, 0.5 for a tie. ``logistic`` and ``relu``: of the probes;
        ``logistic_control`` and ``relu_control``: of the same where each pair's label is a fair
        coin.

    Raises
    ------
    ValueError
        As :func:`position_errors`.
    """
    from sklearn.preprocessing import StandardScaler

    first, documents = _checked_hidden(first, documents)
    second, _ = _checked_hidden(second, documents)
    labels = np.asarray(first_is_later, bool)  # [pairs]
    if not (first.shape == second.shape and labels.shape == documents.shape):
        raise ValueError(
            f"shapes {first.shape}, {second.shape} and {labels.shape} are not [pairs, d_model], "
            f"[pairs, d_model] and [pairs]"
        )
    coins = np.random.default_rng((seed, 2)).random(len(labels)) < 0.5  # [pairs]
    truths = {"": labels, "_control": coins}
    errors: dict[str, NDArray[np.float64]] = {}
    for train, test in _splits(documents, folds, seed):
        scaler = StandardScaler(with_mean=False).fit(first[train] - second[train])
        x = scaler.transform(first[train] - second[train])  # [train, d_model]
        unseen = scaler.transform(first[test] - second[test])  # [test, d_model]
        there, back = (
            np.concatenate(both, axis=1, dtype=np.float32)
            for both in ((first, second), (second, first))
        )  # [pairs, 2 d_model] each
        for suffix, truth in truths.items():
            linear = np.empty((len(labels), 1))  # [pairs, 1]
            linear[train, 0], linear[test, 0] = _logistic_scores(x, truth[train], x, unseen)
            scores = {"logistic": linear[test, 0]}
            if relu_control or not suffix:
                scores["relu"] = _relu_scores(
                    np.hstack([there, linear], dtype=np.float32),
                    np.hstack([back, -linear], dtype=np.float32),
                    truth, train, test, hidden_units, epochs, seed,
                )  # fmt: skip
            for name, score in scores.items():  # [test]
                error = errors.setdefault(name + suffix, np.empty(len(labels)))
                error[test] = _order_error(score, truth[test])
    return errors


def _standardised(values: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
    # Of mean 0 and variance 1 where they are themselves those that it is done by.
    return (values - by.mean()) / (by.std() or 1.0)


def _relu_regression(
    x: NDArray[np.float64],  # [train, d_model]
    target: NDArray[np.float64],  # [train]
    unseen: NDArray[np.float64],  # [test, d_model]
    hidden_units: int,
    epochs: int,
    seed: int,
) -> NDArray[np.float64]:  # [test]
    # With a target of unit variance, one learning rate fits documents of any length.
    from sklearn.neural_network import MLPRegressor

    mean, deviation = target.mean(), target.std() or 1.0
    probe = MLPRegressor(
        **_relu_options(hidden_units, epochs, _POSITION_RATE, _POSITION_PENALTY, seed)
    )
    _fit(probe, x, (target - mean) / deviation)
    return probe.predict(unseen.astype(np.float32)) * deviation + mean


def _logistic_scores(
    x: NDArray[np.float64],  # [train, d_model]
    truth: NDArray[np.bool_],  # [train]
    *pairs: NDArray[np.float64],  # [n, d_model] each
) -> list[NDArray[np.float64]]:  # [n] each
    # A swapped pair with the other label has the same loss. So that both labels occur, however the
    # pairs are presented, every other pair is turned to have the first token later.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    turned = np.arange(len(truth)) % 2 == 1  # [train]
    presented = x * np.where(truth == turned, 1, -1)[:, None]  # [train, d_model]
    probe = LogisticRegression(
        C=_LOGISTIC_INVERSE_PENALTY, fit_intercept=False, tol=1e-3, max_iter=_LOGISTIC_STEPS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        probe.fit(presented, turned)
    return [probe.decision_function(differences) for differences in pairs]


def _relu_scores(
    there: NDArray[np.float32],  # [pairs, 2 d_model]
    back: NDArray[np.float32],  # [pairs, 2 d_model]
    truth: NDArray[np.bool_],  # [pairs]
    train: NDArray[np.int64],  # [train]
    test: NDArray[np.int64],  # [test]
    hidden_units: int,
    epochs: int,
    seed: int,
) -> NDArray[np.float32]:  # [test]
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    both = np.concatenate([there[train], back[train]])  # [2 train, 2 d_model]
    scaler = StandardScaler().fit(both)
    probe = MLPClassifier(**_relu_options(hidden_units, epochs, _ORDER_RATE, _ORDER_PENALTY, seed))
    _fit(probe, scaler.transform(both), np.concatenate([truth[train], ~truth[train]]))
    return _log_odds(probe, scaler.transform(there[test])) - _log_odds(
        probe, scaler.transform(back[test])
    )


def _log_odds(
    probe: MLPClassifier,
    x: NDArray[np.float32],  # [test, 2 d_model]
) -> NDArray[np.float32]:  # [test]
    # Not from its probabilities, which are 0 or 1 where it is sure.
    (inner, outer), (inner_bias, outer_bias) = probe.coefs_, probe.intercepts_
    return (np.maximum(x @ inner + inner_bias, 0) @ outer + outer_bias)[:, 0]


def _order_error(
    score: NDArray[np.floating],  # [test]
    truth: NDArray[np.bool_],  # [test]
) -> NDArray[np.float64]:  # [test]
    return np.where(score == 0, 0.5, (score > 0) != truth)


def _relu_options(hidden_units: int, epochs: int, rate: float, penalty: float, seed: int) -> dict:
    # Never before the last epoch: stopping early would hold single tokens back, of documents that
    # it learns from.
    return {
        "hidden_layer_sizes": (hidden_units,),
        "activation": "relu",
        "alpha": penalty,
        "learning_rate_init": rate,
        "max_iter": epochs,
        "tol": 0.0,
        "n_iter_no_change": epochs + 1,
        "random_state": seed,
    }


def _fit(probe: MLPRegressor | MLPClassifier, x: NDArray, target: NDArray) -> None:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # The number of epochs is fixed: that it is reached is no news.
        warnings.simplefilter("ignore", ConvergenceWarning)
        probe.fit(x.astype(np.float32, copy=False), target)


def _splits(
    documents: NDArray[np.int64], folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    from sklearn.model_selection import GroupKFold

    splitter = GroupKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(documents, groups=documents))


def _checked_hidden(
    hidden: ArrayLike, documents: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    hidden = np.asarray(hidden, np.float64)  # [tokens, d_model]
    documents = np.asarray(documents)  # [tokens]
    if hidden.ndim != 2 or documents.shape != hidden.shape[:1]:
        raise ValueError(
            f"shapes {hidden.shape} and {documents.shape} are not [tokens, d_model] and [tokens]"
        )
    if not np.isfinite(hidden).all():
        raise ValueError("hidden states must be finite")
    return hidden, documents
