"""Masks in place of positions, calibrated on texts: the closed form, and rotation to first order.

Both are means of the queries and keys of the intact model: one pass over the texts, no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.api.masks import ClosedForm, FirstOrder
from posenc.api.model import Model
from posenc.api.running import PROGRESS_AFTER, check_network, token_ids
from posenc.api.under import Active, active, alone, check_model
from posenc.architectures.needs import Need
from posenc.capture import closed_form as means
from posenc.capture.calibration import Calibration
from posenc.capture.parts import ConditionError, is_rotary
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import ClosedFormMask, MeanVectors
from posenc.conditions.section import Condition
from posenc.models import schemes


@alone
def closed_form(
    model: Model, texts: Sequence[str], *, placebo: str | None = None, seed: int = 0
) -> ClosedForm:
    """The mask in closed form: what position adds to the scores of a head, by distance.

    A head's mean query and mean key give, by the formula of its rotation or of its table, the bias
    that stands in place of positions; the first key, on which attention rests, has a mean of its
    own. For rotation it is the trigonometric series of Mao et al. (2026),
    https://arxiv.org/abs/2604.04921; derivations, and what is dropped, are in
    :mod:`posenc.metrics.closed_form`.

    Parameters
    ----------
    model
        From :func:`posenc.load`, under no condition. Its positions are a rotation or a table.
    texts
        Calibration texts, other than those that it is judged on; read and cut as by
        :func:`posenc.run`. A distance beyond the longest of them (of a rotary model, beyond four
        times its length) has the bias of the last one.
    placebo
        A mask of other heads in place of a head's own, as large but without what it is to explain:
        ``over_heads`` (a random cycle through all heads), ``within_layers`` (through those of a
        layer), ``neighbours`` (the next head of the layer), ``one_per_layer`` (the mean of a
        layer).
    seed
        Of the placebo's draw.

    Returns
    -------
    ClosedForm
        For ``posenc.under(model, "zero", mask=...)``; its ``bias`` is an array.

    Raises
    ------
    TypeError
        If the model is none from :func:`posenc.load`.
    ValueError
        If there are no texts, none has more than a first token, or there is no such placebo.
    ConditionError
        If the model is under a condition, has no positions that can be taken away, or its scores
        have no parts that add up.

    Examples
    --------
    >>> mask = posenc.closed_form(model, ["the film was good", "the plot was slow again"])
    >>> with posenc.under(model, "zero", mask=mask):
    ...     run = posenc.run(model, ["the film was slow"])
    >>> run.condition
    'zero, closed_form'
    """
    _check(model, placebo)
    data = _calibration(model, token_ids(model, texts))
    source = ClosedFormMask(
        method="closed_form", position="zero", documents=None, seed=0, first=True, temperature=False
    )
    with _bar(model, data) as bar:
        mask, _ = means.closed_form(source, data, bar.update)
    return ClosedForm(*_named("closed_form", mask, placebo, seed))


@alone
def first_order(
    model: Model, texts: Sequence[str], *, placebo: str | None = None, seed: int = 0
) -> FirstOrder:
    """Rotation to first order: the terms of what it adds that need no meeting of query and key.

    With each head's mean query and mean key before rotation, what rotation adds to a score is a sum
    of four terms, :mod:`posenc.metrics.first_order`, as in an analysis of variance. Put back are
    ``mask``, which is the mask in closed form, ``key`` and ``query``;
    :meth:`FirstOrder.only` chooses among them.

    Parameters
    ----------
    model
        From :func:`posenc.load`, under no condition. Its positions are a rotation.
    texts, placebo, seed
        As of :func:`posenc.closed_form`; a placebo's means are those of other heads.

    Returns
    -------
    FirstOrder
        For ``posenc.under(model, "zero", mask=...)``.

    Raises
    ------
    TypeError, ValueError, ConditionError
        As of :func:`posenc.closed_form`, and if the model's positions are no rotation.
    """
    _check(model, placebo)
    if not is_rotary(model.network):
        raise ConditionError(
            f"first_order needs rotary positions, and {model.name} has a table of them: "
            f"posenc.closed_form is for both"
        )
    data = _calibration(model, token_ids(model, texts))
    source = MeanVectors(method="means", documents=None, seed=0)
    with _bar(model, data) as bar:
        mask, _ = means.mean_vectors(source, data, bar.update)
    return FirstOrder(*_named("first_order", mask, placebo, seed))


def _check(model: Model, placebo: str | None) -> None:
    """Refuse a model that is not intact or has no positions, and a placebo that is not there."""
    check_model(model)
    if (on := active(model)) is not None:
        raise ConditionError(
            f"{model.name} is under {on.name}, but means are of the intact model: leave that block "
            f"first"
        )
    check_network(model, Active(model, "intact", Condition(), {}))
    if placebo not in (None, "over_heads") and model.architecture.n_heads == 1:
        raise ValueError(
            f"placebo {placebo!r} needs other heads of the same layer, which has only one"
        )
    scheme = getattr(model.network.config, schemes.KEY, "learned")
    reason = f"its scheme is {scheme}" if scheme in (*schemes.IN_ATTENTION, "none") else None
    if reason := reason or model.architecture.can.get(Need.REMOVABLE):
        raise ConditionError(
            f"{model.name} has no positions that a mask can stand in place of: {reason}"
        )
    if placebo is not None and placebo not in means.PLACEBOS:
        raise ValueError(f"placebo is {placebo!r}: take one of {', '.join(means.PLACEBOS)}")


def _calibration(model: Model, documents: list[list[int]]) -> Calibration:
    if not documents:
        raise ValueError("texts is empty: give calibration texts")
    if max(map(len, documents)) < 2:
        raise ValueError("no text has more than a first token: means are of those that follow it")
    return Calibration(model.network, documents, [], max(map(len, documents)))


def _bar(model: Model, data: Calibration) -> tqdm:
    tokens = sum(map(len, data.fitting))
    return tqdm(total=tokens, unit="token", desc=model.name, delay=PROGRESS_AFTER)


def _named(name: str, mask: LearnedMask, placebo: str | None, seed: int) -> tuple[str, LearnedMask]:
    """A mask and its name; of a placebo, all that a head has is another head's."""
    if placebo is None:
        return name, mask
    moved: dict[str, NDArray[Any]] = {
        key: means.PLACEBOS[placebo](x.astype(np.float64), seed).astype(np.float32)
        for key, x in mask.arrays().items()
    }  # [n_layers, n_heads, ...] each
    return f"{name}_{placebo}", LearnedMask(**moved)
