"""The ``matrices`` section: position embeddings that are of no model of the study."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from posenc.config.base import (
    MAX_LENGTH,
    Deviation,
    HeadCount,
    Length,
    Line,
    Section,
    Seed,
    Sha256,
    Width,
)

Rows = Annotated[Length, Field(ge=16, description="Positions.")]


class PathMatrix(Section):
    """A matrix of a file on this machine, [positions, d_model]."""

    kind: Literal["path"]
    path: Line
    """A ``.safetensors`` or ``.npy`` file."""
    sha256: Sha256
    """Checksum of the file: what results depend on, wherever it lies."""
    tensor: Line | None = None
    """Name of the tensor, where a ``.safetensors`` file has more than one with two dimensions."""
    first_row: Annotated[int, Field(ge=0, le=MAX_LENGTH)] = 0
    """Row of the first position; those before it are for padding, as RoBERTa's first two."""
    n_heads: HeadCount | None = None
    """Heads of a layer, where the file has the query and key maps of a GPT-2 too, whole or in part;
    null for a table alone."""

    @field_validator("path")
    @classmethod
    def _check_suffix(cls, path: str) -> str:
        if not path.endswith((".safetensors", ".npy")):
            raise ValueError(f"{path!r} is neither a .safetensors nor a .npy file")
        return path

    @model_validator(mode="after")
    def _check_heads(self) -> PathMatrix:
        if self.n_heads is not None and not self.path.endswith(".safetensors"):
            raise ValueError("n_heads is of a .safetensors file: a .npy file has no maps of heads")
        return self


class SinusoidMatrix(Section):
    """The sinusoids of Vaswani et al. (2017)."""

    kind: Literal["sinusoid"]
    rows: Rows
    d_model: Annotated[Width, Field(ge=2, multiple_of=2)]
    """Width of a row."""


class RandomMatrix(Section):
    """Independent Gaussian entries with mean 0: what an embedding is before its training."""

    kind: Literal["random"]
    rows: Rows
    d_model: Width
    """Width of a row."""
    deviation: Deviation = 0.02
    """Standard deviation of the entries."""
    seed: Seed


Matrix = Annotated[PathMatrix | SinusoidMatrix | RandomMatrix, Field(discriminator="kind")]
