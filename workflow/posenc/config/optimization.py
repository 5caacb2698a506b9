"""How the small networks of an experiment are trained."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from posenc.config.base import (
    Batch,
    Count,
    Decay,
    FirstSteps,
    Loss,
    Rate,
    Section,
    Steps,
)


class Optimization(Section):
    """AdamW with a linear warm-up and a cosine to a tenth, stopped early on validation."""

    steps: Steps
    """At most."""
    batch: Batch
    """Examples of a step."""
    learning_rate: Rate
    """At its highest, after the warm-up."""
    warmup_steps: FirstSteps
    """First steps, in which the learning rate rises."""
    weight_decay: Decay
    """Of AdamW."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products; weights and losses are float32."""
    validate_steps: Steps
    """The loss on validation examples is computed every so many steps."""
    patience: Count | None = None
    """Training stops after so many validations without a lower loss; null never does. The weights
    of the lowest loss are kept."""
    enough: Loss | None = None
    """Training stops once the loss on validation examples is this low, in nats; null goes on."""
    checkpoint_steps: Steps
    """A killed training goes on from its last checkpoint, written every so many steps."""

    @model_validator(mode="after")
    def _check_steps(self) -> Optimization:
        if self.validate_steps > self.steps:
            raise ValueError(
                f"validate_steps is {self.validate_steps}, more than steps {self.steps}: "
                f"the training would never be validated"
            )
        return self
