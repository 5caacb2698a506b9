"""The results that documents are typeset from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Results:
    """The study, its measurements in order, and what others found.

    Attributes
    ----------
    study
        What data/config/study.json holds.
    measurements, trainings
        Of the study's runs, and of the models that it trains.
    published
        Published numbers.
    versions
        What real versions of the library were found to do with a mask (docs/mask-versions.json).
    """

    study: Mapping[str, Any]
    measurements: Sequence[Mapping[str, Any]]
    trainings: Sequence[Mapping[str, Any]]
    published: Mapping[str, Any]
    versions: Mapping[str, Any]

    def of(self, measurement: str) -> list[Mapping[str, Any]]:
        """The runs of one measurement."""
        return [one for one in self.measurements if one["measurement"] == measurement]


def unbundled(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The measurements that a file holds: itself, or those of all conditions."""
    return value.get("runs", [value])
