"""The ``studies`` section: which models, data sets and conditions are run together."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from .base import Name, Section


class Study(Section):
    """One study: runs are all of models x data sets x conditions.

    ``models`` is the union of ``pretrained`` and ``trained``: DVC's stage templates need the three
    lists, and the validator keeps them in agreement.
    """

    name: Name
    title: str
    """Shown in the paper, the slides and the report."""
    models: Annotated[list[Name], Field(min_length=1)]
    """In order of presentation; the first encoder and the first decoder are the headline."""
    pretrained: list[Name]
    """Those of ``models`` whose weights are fetched."""
    trained: dict[Name, Name]
    """Those of ``models`` that are trained here, and the data set that each learns from."""
    datasets: Annotated[list[Name], Field(min_length=1)]
    """In order of presentation; the first of each format is the headline."""
    conditions: Annotated[list[Name], Field(min_length=1)]
    """Begins with ``intact``, which the others are compared with."""

    @model_validator(mode="after")
    def _check_lists(self) -> Study:
        for key in ("models", "pretrained", "datasets", "conditions"):
            values = getattr(self, key)
            for value in values:
                if values.count(value) > 1:
                    raise ValueError(f"{key} names {value!r} twice")
        for name in self.models:
            if (name in self.pretrained) == (name in self.trained):
                raise ValueError(
                    f"models names {name!r}, which must be in exactly one of pretrained and trained"
                )
        for name in [*self.pretrained, *self.trained]:
            if name not in self.models:
                raise ValueError(f"{name!r} is in pretrained or trained, but not in models")
        if self.conditions[0] != "intact":
            raise ValueError("conditions must begin with 'intact'")
        return self
