"""The ``sweeps`` section: conditions with one parameter varied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, model_validator

from posenc.conditions.section import Condition
from posenc.config.base import Documents, Length, Line, Name, Section

_Tokens: TypeAdapter[int] = TypeAdapter(Annotated[Length, Field(ge=4, strict=True)])


class Sweep(Section):
    """Conditions, each under every value of a parameter."""

    conditions: Annotated[list[Name], Field(min_length=1)]
    """Those that are varied."""
    key: Line
    """What is varied: a dotted key of the conditions such as ``mask.profile.slope``, or ``tokens``,
    the length that documents are cut to."""
    values: Annotated[list[float | int], Field(min_length=2)]
    """Those that the key takes, one after the other."""

    def units(
        self, conditions: dict[str, Condition]
    ) -> Iterator[tuple[str, float, Condition, int | None]]:
        """Each condition under each value: its name, the value, the condition, a length if any.

        Raises
        ------
        ValueError
            If a condition does not have the key, or cannot have the value.
        """
        for name in self.conditions:
            for value in self.values:
                if self.key == "tokens":
                    yield name, value, conditions[name], _Tokens.validate_python(value)
                else:
                    yield name, value, _varied(name, conditions[name], self.key, value), None


def _varied(name: str, condition: Condition, key: str, value: float) -> Condition:
    changed = condition.model_dump()
    *outer, last = key.split(".")
    place: Any = changed
    for part in outer:
        place = place.get(part) if isinstance(place, dict) else None
    if not isinstance(place, dict) or last not in place:
        raise ValueError(f"the condition {name!r} has no key {key}")
    place[last] = value
    return Condition.model_validate(changed)


class Extrapolation(Section):
    """Documents longer than a decoder was trained for (A5)."""

    tokens: Annotated[Length, Field(ge=8)]
    """Length that documents are cut to; those that do not reach it are left out."""
    documents: Annotated[Documents, Field(ge=2)]
    """How many of the calibration data set's evaluation documents are looked through."""
    bucket: Length
    """Losses are averaged over so many positions."""
    conditions: Annotated[list[Name], Field(min_length=1)]
    """Those that the longer documents are evaluated under."""
    against: Name | None = None
    """The one of them that the others are compared with, token by token, in the last positions."""

    @model_validator(mode="after")
    def _check_against(self) -> Extrapolation:
        if self.against is not None and self.against not in self.conditions:
            raise ValueError(
                f"against is {self.against!r}, which is not one of the conditions: "
                f"{', '.join(self.conditions)}"
            )
        return self
