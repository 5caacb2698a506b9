"""How the small networks of an experiment are trained."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .base import Section


class Optimization(Section):
    """AdamW with a linear warm-up and a cosine to a tenth, stopped early on validation."""

    steps: Annotated[int, Field(ge=1)]
    """At most."""
    batch: Annotated[int, Field(ge=1)]
    """Examples of a step."""
    learning_rate: Annotated[float, Field(gt=0)]
    warmup_steps: Annotated[int, Field(ge=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    precision: Literal["float32", "bfloat16"]
    """Of matrix products; weights and losses are float32."""
    validate_steps: Annotated[int, Field(ge=1)]
    """The loss on validation examples is computed every so many steps."""
    patience: Annotated[int, Field(ge=1)] | None
    """Training stops after so many validations without a lower loss; null never does. The weights
    of the lowest loss are kept."""
    checkpoint_steps: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _check_steps(self) -> Optimization:
        if self.validate_steps > self.steps:
            raise ValueError(
                f"validate_steps is {self.validate_steps}, more than steps {self.steps}: "
                f"the training would never be validated"
            )
        return self
