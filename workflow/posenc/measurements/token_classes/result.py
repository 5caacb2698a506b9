"""What it finds out about a model on a text."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class TokenClass(Part):
    """Tokens of one class, and what a condition costs them.

    Costs are None where too few documents have such a token.
    """

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    name: str = Field(validation_alias="class", serialization_alias="class")
    tokens: int
    documents: int
    """That have such a token."""
    mean: Interval | None
    """In nats per token."""
    adjusted: Interval | None
    """The same by a linear model of all classes, with the documents taken out."""
    share: Interval | None
    """Share of the cost of all tokens; None where the condition costs nothing, too."""


class Factor(Part):
    """What classes of tokens are of: words, places, and so on.

    Shares are of the variance of costs within documents.
    """

    factor: str
    alone: float
    """Share that the factor explains by itself."""
    unique: float
    """Share that no other factor explains."""
    classes: list[TokenClass]


class Cost(Part):
    """What a condition costs, by class of token."""

    condition: str
    spec: Spec
    """The condition, written out."""
    delta_nll: Interval
    """Loss minus the intact model's, in nats per token."""
    explained: float
    """Share of its variance within documents that all classes explain."""
    permuted: float
    """The same of classes that are permuted within documents, a mean over permutations."""
    factors: list[Factor]


class Costs(OfDocuments):
    """Costs of all conditions but the intact one; ``tokens`` are those that are predicted."""

    positions: str
    """Where the model has them: ``table``, ``rotation`` and so on."""
    intact: Interval
    """Loss of the intact model, in nats per token."""
    conditions: list[Cost]
