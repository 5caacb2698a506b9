"""Conditions along what is varied: a parameter of a mask, the length of documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.sweeps import Extrapolation
from posenc.config.base import Name, Section
from posenc.measurements.conditions.declaration import Conditions
from posenc.measurements.conditions.evaluations import Evaluations, Fields, intervals, places
from posenc.measurements.conditions.result import (
    Bucket,
    LongDocuments,
    LongEvaluation,
    SweepPoint,
    SweepPoints,
)
from posenc.measurements.declaration import INTACT, WITHOUT
from posenc.measurements.frame import Resampling, bootstrap
from posenc.metrics.recovery import PairedMeans, by_bucket, paired_losses, recovered_by_bucket


class Sweep(Section):
    """One sweep: what is varied, and the unit of each condition and value."""

    key: str
    units: dict[Name, dict[str, float]]
    """By condition: unit and value."""


def swept(sweep: Sweep, evaluated: Evaluations, options: Resampling) -> SweepPoints:
    """One row per condition and value."""
    rows = []
    values = sorted({value for units in sweep.units.values() for value in units.values()})
    for value in values:
        units = {
            name: unit
            for name, by_unit in sweep.units.items()
            for unit, own in by_unit.items()
            if own == value
        }
        # With another length, the conditions to compare with have it too.
        base = {}
        for name in (INTACT, WITHOUT):
            unit = units.get(name) if sweep.key == "tokens" else name
            base[name] = unit if unit in evaluated.units else None
        order = list(dict.fromkeys([*units.values(), *filter(None, base.values())]))
        cosine_tokens = evaluated.units[order[0]]["tokens"].to_numpy()
        means = None
        if evaluated.metadata["is_decoder"]:
            sums, scored = evaluated.nll(order)
            means = PairedMeans(sums, scored, **options)
        for name, unit in units.items():
            last = PairedMeans(evaluated.cosines(unit)[:, -1:], cosine_tokens, **options)
            losses: Fields = {}
            if means is not None:
                column = order.index(unit)
                losses = intervals(paired_losses(means, column, *places(order, base))._asdict())
            point = {
                "condition": name,
                "value": value,
                "last_cosine": Interval.of(last.of(lambda own: own, 0)),
            }
            rows.append(SweepPoint.model_validate({**point, **losses}))
    return SweepPoints(key=sweep.key, rows=rows)


def extrapolation(
    parameters: Conditions, beyond: Extrapolation, evaluated: Evaluations
) -> LongDocuments | NotMeasured:
    """Loss by position in documents that are longer than the model was trained for."""
    units = [name for name in beyond.conditions if name in evaluated.units]
    documents = len(evaluated.units[units[0]]) if units else 0
    if not evaluated.metadata["is_decoder"] or documents < 2:
        reason = "no language-model head"
        if evaluated.metadata["is_decoder"]:
            reason = f"{documents} documents of {beyond.tokens} tokens"
            if not units:
                reason = f"the model reads {beyond.tokens} tokens or more as it is"
        confidence = parameters.confidence
        return NotMeasured(reason=reason, documents=documents, confidence=confidence)
    losses = {
        unit: np.array(evaluated.units[unit]["nll"].to_pylist(), np.float64) for unit in units
    }  # [documents, tokens - 1] each
    options = bootstrap(parameters)
    against = losses.get(beyond.against or "")
    has_both = {INTACT, WITHOUT} <= set(losses)

    def shares(own: NDArray[np.float64]) -> list[Interval | None]:
        """What a condition recovers of the loss without positions, by bucket."""
        columns = (own, losses[WITHOUT], losses[INTACT])
        buckets = recovered_by_bucket(columns, beyond.bucket, **options)
        return [None if share is None else Interval.of(share) for share in buckets]

    return LongDocuments(
        documents=documents,
        tokens=documents * losses[units[0]].shape[1],
        confidence=parameters.confidence,
        against=beyond.against if against is not None else None,
        trained_tokens=evaluated.metadata["units"][units[0]]["parameters"]["reading"]["max_tokens"],
        conditions=[
            LongEvaluation(
                condition=unit,
                precision=evaluated.metadata["precision"][unit],
                buckets=[
                    Bucket(begin=begin + 1, to=end + 1, nll_per_token=Interval.of(estimate))
                    for begin, end, estimate in by_bucket(own, beyond.bucket, **options)
                ],
                # For conditions other than the two that define the share.
                recovered=shares(own) if has_both and unit not in (INTACT, WITHOUT) else None,
                # On the same tokens: one interval of the difference, not two wide ones.
                difference=None
                if against is None
                else Interval.of(by_bucket(own - against, beyond.bucket, **options)[-1][-1]),
            )
            for unit, own in losses.items()
        ],
    )
