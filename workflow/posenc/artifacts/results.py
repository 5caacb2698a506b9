"""Results as types: what the files of measurements hold.

A measurement returns a :class:`Result`, whose fields say what they hold, in which unit and shape.
What documents print of it stands apart (:mod:`posenc.artifacts.printing`), so that another word
measures nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from posenc.artifacts.files import ArtifactError

ENVELOPE = (
    "schema", "measurement", "catalogue", "run", "status", "reason", "precision", "provenance",
    "file", "subject", "kind", "matrix",
)  # fmt: skip
"""What a measured file says beside its result, and the file that it was read from."""

Spec: TypeAlias = dict[str, Any]
"""A condition, written out as in params.yaml."""


class Part(BaseModel):
    """Part of a result: immutable, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def as_json(self) -> dict[str, Any]:
        """What a file holds of it: the fields that were given."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Estimated(Protocol):
    """:class:`posenc.metrics.bootstrap.Estimate`: a number and its interval, or k of each."""

    @property
    def value(self) -> Any: ...
    @property
    def low(self) -> Any: ...
    @property
    def high(self) -> Any: ...


class Interval(Part):
    """An estimate with its confidence interval, in the unit of the field that holds it."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: Estimated) -> Self:
        """An estimate of one number, as :mod:`posenc.metrics` gives it."""
        return cls(value=float(estimate.value), low=float(estimate.low), high=float(estimate.high))

    @classmethod
    def each(cls, estimate: Estimated) -> list[Self]:
        """An estimate of k numbers, as arrays [k]."""
        return [
            cls(value=float(value), low=float(low), high=float(high))
            for value, low, high in zip(estimate.value, estimate.low, estimate.high, strict=True)
        ]

    @property
    def numbers(self) -> tuple[float, float, float]:
        """The estimate and the ends of its interval."""
        return self.value, self.low, self.high


class Spread(Part):
    """A mean over repetitions, and the least and the most of them, in the unit of the field."""

    mean: float
    least: float
    most: float

    @property
    def numbers(self) -> tuple[float, float, float]:
        """The mean, the least and the most."""
        return self.mean, self.least, self.most


class Result(Part):
    """What a measurement finds out about one run, or about what else its files cover."""

    @classmethod
    def of(cls, measured: Mapping[str, Any]) -> Self:
        """Read a measured file, or a run in it.

        Raises
        ------
        ArtifactError
            If the file is of another layout.
        """
        own = {
            key: value
            for key, value in measured.items()
            if key in cls.model_fields or key not in ENVELOPE
        }
        try:
            return cls.model_validate(own)
        except ValidationError as error:
            first, *_ = error.errors()
            place = ".".join(map(str, first["loc"]))
            run = "/".join(map(str, measured.get("run", {}).values()))
            where = measured.get("file") or f"{measured.get('measurement')} of {run}"
            raise ArtifactError(
                f"{where} is of another layout ({place}: {first['msg'].lower()}): delete it and "
                f"start the workflow again"
            ) from error


class OfDocuments(Result):
    """A result whose intervals resample documents."""

    documents: int
    tokens: int
    confidence: float


class NotMeasured(Part):
    """What a measurement returns for a run that cannot be measured, and why."""

    status: str = "not run"
    reason: str
    documents: int = 0
    tokens: int = 0
    confidence: float | None = None

    def as_json(self) -> dict[str, str | int | float]:
        """What a file holds of it."""
        return self.model_dump(exclude_none=True)
