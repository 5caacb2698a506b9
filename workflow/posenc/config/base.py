"""What all sections of ``params.yaml`` have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Sha256 = Annotated[
    str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 as 64 lower-case hex digits.")
]
Revision = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{40}$", description="Commit of the hub repository, 40 hex digits."),
]
Seed = Annotated[int, Field(ge=0, lt=2**32, description="Seed of the random generator.")]
Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="A name that is also a path component: lower case, digits, underscores.",
    ),
]


class Section(BaseModel):
    """A mapping of ``params.yaml``: immutable, strict about types, and closed to unknown keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )
