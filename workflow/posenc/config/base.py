"""What all sections of ``params.yaml`` have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Sha256 = Annotated[
    str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 as 64 lower-case hex digits.")
]
Revision = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{40}$", description="Commit of the hub repository, 40 hex digits."),
]
SeedNumber = Annotated[int, Field(ge=0, lt=2**32, description="Seed of the random generator.")]
"""Of a list, or of a union."""
Seed = Annotated[SeedNumber, Field(default=0)]
"""Of a field of its own; 0 where it is left out."""
Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=64,  # file systems take 255 bytes, and a file's name may hold several of them
        description="A name that is also a path component: lower case, digits, underscores.",
    ),
]
Line = Annotated[str, Field(min_length=1, max_length=1000)]
"""A title, a path, an identifier."""

# Bounds that no experiment comes near, so that a slip of the keyboard is refused at once instead of
# filling the memory or running for years. An experiment that needs more changes the bound here.
MAX_DOCUMENTS = 10_000_000
MAX_LENGTH = 2**20
MAX_STEPS = 10_000_000


def _rising(bands: list[float]) -> list[float]:
    if bands != sorted(set(bands)):
        raise ValueError(f"bands {bands} must rise")
    return bands


Bands = Annotated[
    list[Annotated[float, Field(gt=0, lt=0.5)]],
    Field(min_length=1, description="Limits between the bands, in cycles per token, rising."),
    AfterValidator(_rising),
]
Batch = Annotated[int, Field(ge=1, le=1_000_000)]
"""Examples of one step."""
Clusters = Annotated[int, Field(ge=2, le=1000)]
"""Of the heads of a model, of which there are fewer."""
Confidence = Annotated[
    float, Field(default=0.95, gt=0.5, lt=1, description="Confidence of the intervals.")
]
"""95 % where it is left out."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""How often something is repeated."""
Decay = Annotated[float, Field(ge=0, le=1)]
"""Weight decay: AdamW takes this share, times the learning rate, of each weight."""
Deviation = Annotated[float, Field(gt=0, le=100)]
"""Of random weights; GPT-2 begins with 0.02."""
Documents = Annotated[int, Field(ge=1, le=MAX_DOCUMENTS)]
"""IMDB, the largest data set here, has 100,000."""
Draws = Annotated[int, Field(ge=1, le=100_000_000)]
"""Tokens, pairs and the like, all held in memory."""
Factor = Annotated[float, Field(gt=0, le=1000)]
"""Float16 ends at 65,504, and activations are well above 1."""
FirstSteps = Annotated[int, Field(ge=0, le=MAX_STEPS)]
"""First steps of a training; 0 for none."""
Folds = Annotated[int, Field(ge=2, le=1000)]
"""Of a cross-validation, each of which is a fit."""
HeadCount = Annotated[int, Field(ge=1, le=1000)]
"""GPT-3 has 96 (Brown et al., 2020, table 2.1)."""
Index = Annotated[int, Field(ge=0, lt=1000)]
"""A layer or a head, from 0."""
Layers = Annotated[int, Field(ge=1, le=1000)]
"""GPT-3 has 96 (Brown et al., 2020, table 2.1)."""
Length = Annotated[int, Field(ge=1, le=MAX_LENGTH)]
"""Tokens or bytes in a row; the scores of attention grow with the square."""
Loss = Annotated[float, Field(gt=0, le=100)]
"""Nats; guessing among 2**20 tokens costs 14."""
MixingWeights = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1)]
"""Weights w of w a + (1 - w) b."""
Rate = Annotated[float, Field(gt=0, le=1)]
"""Learning rate: about as much as AdamW moves each weight in a step."""
Samples = Annotated[
    int, Field(default=1000, ge=100, le=1_000_000, description="Samples of the bootstrap.")
]
"""Of the bootstrap; more of them change no digit that is printed."""
# The mask of transformers 4.20 and before is a slope of 9000 / (n - 1).
Slope = Annotated[float, Field(ge=0, le=10_000)]
"""Nats per token of distance; ``exp(-746)`` is 0 in float64."""
Steps = Annotated[int, Field(ge=1, le=MAX_STEPS)]
"""BERT took 1,000,000 (Devlin et al., 2019, appendix A.2)."""
Vocabulary = Annotated[int, Field(ge=1, le=2**20)]
"""XLM-R has 250,000 (Conneau et al., 2020, section 3)."""
Width = Annotated[int, Field(ge=1, le=2**16)]
"""Dimensions; GPT-3 has 12,288 (Brown et al., 2020, table 2.1)."""


class Section(BaseModel):
    """A mapping of ``params.yaml``: immutable, strict about types, and closed to unknown keys.

    No number is infinite or none: nothing that is computed with one is a result.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )


def check_heads(d_model: int, n_heads: int) -> None:
    """Refuse a width that heads cannot share.

    Raises
    ------
    ValueError
        If it is no multiple of their number.
    """
    if d_model % n_heads:
        raise ValueError(f"d_model {d_model} is not a multiple of n_heads {n_heads}")
