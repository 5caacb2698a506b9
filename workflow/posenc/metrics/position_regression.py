"""Whether position can be read off position embeddings by a linear model, which sees them alone.

Wang and Chen (2020), "What Do Position Embeddings Learn?", section 3,
https://aclanthology.org/2020.emnlp-main.555. Their published programs settle what the text leaves
open: https://github.com/MiuLab/PE-Study.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def absolute_error(table: ArrayLike, folds: int, generator: np.random.Generator) -> float:
    """Mean absolute error, in positions, of a linear regression from a vector to its position.

    Σ_p |round(w_f · E_p + b_f) - p| / rows, where w_f and b_f are fitted by least squares to the
    folds that p is not in. With fewer rows than dimensions, they are those of the smallest norm.

    Parameters
    ----------
    table
        [rows, d_model]: position embeddings, row p of position p.
    folds
        Number of folds, over shuffled positions.
    generator
        Of the shuffle.

    Returns
    -------
    float
        A prediction of always the mean position has an error of rows / 4. Vectors that know nothing
        of position do worse where there are about as many rows as dimensions or fewer, since the
        regression follows the noise.

    Raises
    ------
    ValueError
        If the shape is not [rows, d_model], there are fewer rows than folds, or a value is not
        finite.
    """
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold, cross_val_predict

    table = _checked(table, folds)  # [rows, d_model]
    order = generator.permutation(len(table))  # [rows]
    predicted = cross_val_predict(LinearRegression(), table[order], order, cv=KFold(folds))
    return float(np.abs(np.round(predicted) - order).mean())


def relative_error(
    table: ArrayLike, pairs: int, folds: int, generator: np.random.Generator
) -> float:
    """Share of pairs of positions of which a logistic regression mistakes which comes later.

    The regression sees [E_i; E_j], 2 d_model numbers, and says whether j > i.

    Parameters
    ----------
    table
        [rows, d_model]: position embeddings.
    pairs
        How many ordered pairs of different positions are drawn, no pair twice; see
        :func:`pairs_of` for those of a small table.
    folds
        Number of folds, over the pairs.
    generator
        Of the draw.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        As :func:`absolute_error`, and if there are fewer than two pairs a fold.

    Notes
    -----
    As in the published programs, the vectors are taken as they are, the penalty is ||w||² / 2 with
    C = 1, and there are as many pairs as rows (512). All three matter: with 5000 pairs of 512
    positions, the error of sinusoids falls from 5 to 2 % and that of random vectors from 39 to
    22 %; without a penalty, that of sinusoids is 3 %. The penalty is felt more by smaller vectors:
    divide by their deviation to be rid of that.

    A position is in pairs of several folds, so the regression learns where in the sequence a vector
    stands even if it is random: its error is below 50 %, the less so the fewer the pairs. Compare
    with random vectors of the same shape and deviation.

    The published programs draw from all rows², pairs of a position with itself included.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    table = _checked(table, folds)  # [rows, d_model]
    pairs = pairs_of(len(table), pairs)
    if pairs < 2 * folds:
        raise ValueError(f"{pairs} pairs are too few for {folds} folds")
    rows = len(table)
    drawn = generator.choice(rows * (rows - 1), pairs, replace=False)  # [pairs]
    first, second = np.divmod(drawn, rows - 1)  # [pairs] each
    second += second >= first  # passes over the pair of a position with itself
    joined = np.hstack([table[first], table[second]])  # [pairs, 2 d_model]
    later = second > first  # [pairs]
    model = LogisticRegression(C=1.0, max_iter=1000)
    predicted = cross_val_predict(model, joined, later, cv=StratifiedKFold(folds))
    return float(np.mean(predicted != later))


def repeated_errors(
    table: NDArray[np.float64], *, pairs: int, folds: int, repeats: int, seed: int
) -> dict[str, dict[str, list[float]]]:
    """Errors of both regressions, cross-validated several times, beside those of random tables.

    Parameters
    ----------
    table, pairs, folds
        As of :func:`relative_error` and :func:`absolute_error`.
    repeats, seed
        Cross-validations, each with its own folds, pairs and random table; and the seed of all.

    Returns
    -------
    dict
        For ``table`` and its ``control``, :func:`random_like` it, by repeat: ``absolute``, in
        positions; ``relative``, in percent; and ``relative_unit_deviation``, the same of the table
        over its standard deviation.
    """
    by_table: dict[str, dict[str, list[float]]] = {"table": {}, "control": {}}
    for repeat in np.random.SeedSequence([seed, 0]).spawn(repeats):
        drawn, *seeds = repeat.spawn(4)
        control = random_like(table, np.random.default_rng(drawn))  # [rows, d_model]
        for name, subject in (("table", table), ("control", control)):
            # The same folds and pairs for both.
            absolute, relative, scaled = (np.random.default_rng(child) for child in seeds)
            unit = subject / subject.std()  # [rows, d_model]
            errors = {
                "absolute": absolute_error(subject, folds, absolute),
                "relative": 100 * relative_error(subject, pairs, folds, relative),
                "relative_unit_deviation": 100 * relative_error(unit, pairs, folds, scaled),
            }
            for kind, error in errors.items():
                by_table[name].setdefault(kind, []).append(error)
    return by_table


def pairs_of(rows: int, pairs: int) -> int:
    """How many ordered pairs are drawn of so many rows: all there are where they are fewer."""
    return min(pairs, rows * (rows - 1))


def random_like(table: ArrayLike, generator: np.random.Generator) -> NDArray[np.float64]:
    """Gaussian entries with mean 0, and the shape and standard deviation of a table's entries.

    Parameters
    ----------
    table
        [rows, d_model].
    generator
        Of the entries.

    Returns
    -------
    float64 [rows, d_model]: vectors that know nothing of position.
    """
    table = np.asarray(table, np.float64)  # [rows, d_model]
    return generator.normal(0, table.std(), table.shape)


def _checked(table: ArrayLike, folds: int) -> NDArray[np.float64]:
    table = np.asarray(table, np.float64)  # [rows, d_model]
    if table.ndim != 2 or not table.shape[1]:
        raise ValueError(f"shape {table.shape} is not [rows, d_model]")
    if len(table) < folds or folds < 2:
        raise ValueError(f"{len(table)} rows are too few for {folds} folds")
    if not np.isfinite(table).all():
        raise ValueError("the table must be finite")
    return table
