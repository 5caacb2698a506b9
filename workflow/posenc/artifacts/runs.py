"""Runs, each with its typed result or the reason why it was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from posenc.artifacts.results import Result

R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Run(Generic[R]):
    """What a measurement is of, and what it finds out.

    Attributes
    ----------
    model, dataset, condition
        Empty where a measurement is of all of them. A table that no model has counts as a model.
    measured
        The result; None of a run that was not measured.
    reason
        Why it was not.
    """

    model: str
    dataset: str
    condition: str
    measured: R | None
    reason: str

    @property
    def result(self) -> R:
        """The result of a run that was measured."""
        assert self.measured is not None, self.reason
        return self.measured


def of_kind(measurements: Iterable[Mapping[str, Any]], kind: str, result: type[R]) -> list[Run[R]]:
    """The runs of one kind of measurement, in order.

    Parameters
    ----------
    measurements
        What files hold.
    kind
        Name of the measurement.
    result
        Type of its result.

    Raises
    ------
    ArtifactError
        If a file is of another layout.
    """
    return [
        Run(
            model=of.get("model", of.get("matrix", "")),
            dataset=of.get("dataset", ""),
            condition=of.get("condition", ""),
            measured=result.of(measurement) if measurement["status"] == "measured" else None,
            reason=measurement.get("reason") or "",
        )
        for measurement in measurements
        if measurement["measurement"] == kind
        for of in [measurement["run"]]
    ]


def by_dataset(runs: Sequence[Run[R]]) -> dict[str, list[Run[R]]]:
    """Runs of each data set, in order; the first model is the headline."""
    groups: dict[str, list[Run[R]]] = {}
    for run in runs:
        groups.setdefault(run.dataset, []).append(run)
    return groups
