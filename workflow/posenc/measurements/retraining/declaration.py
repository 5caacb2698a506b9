"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from posenc.config.base import (
    Batch,
    Confidence,
    Decay,
    Documents,
    Draws,
    FirstSteps,
    Length,
    Line,
    Name,
    Rate,
    Samples,
    Section,
    Seed,
    SeedNumber,
    Steps,
)
from posenc.config.optimization import Optimization
from posenc.measurements.declaration import (
    CELL,
    DATASETS,
    INTACT,
    MASKS,
    TOKENIZER,
    TOKENS,
    WEIGHTS,
    WITHOUT,
    Measurement,
)

Instants = Annotated[list[FirstSteps], Field(min_length=2)]


class Retraining(Section):
    """Loss by training tokens of a decoder that is trained on without rotation (F6)."""

    split: Line = "train"
    """Of the study's calibration data set, what is learned from: none that is evaluated, or that
    masks are learned from."""
    documents: Documents = 12_000
    """At most so many of its documents, drawn at random."""
    tokens: Annotated[Length, Field(ge=2)] = 512
    """Of a sequence, which begins where a document begins."""
    conditions: Annotated[list[Name], Field(min_length=2)] = ["intact", "zero", "zero_closed"]
    """Those that the model is trained under, of the ones that a study evaluates it under."""
    evaluated_tokens: Draws = 18_100
    """At most so many tokens of each data set: whole documents, the first that a study evaluates
    the model on. So many are 64 reviews, or all questions."""
    steps: Steps = 240
    """Of a training."""
    batch_sequences: Batch = 16
    """Sequences of a step."""
    learning_rate: Rate = 0.0001
    """At its highest, after the warm-up."""
    warmup_steps: FirstSteps = 24
    """First steps, in which the learning rate rises."""
    weight_decay: Decay = 0.1
    """Of AdamW."""
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    """Of matrix products in training; weights, and losses on evaluated documents, are float32."""
    evaluate_steps: Instants = [0, 1, 2, 4, 8, 16, 32, 64, 120, 240]
    """Steps after which the loss is measured, rising from 0 to the last."""
    batch_tokens: Length = 16_384
    """Tokens of one forward pass: a batch with more is run in parts, which takes less memory."""
    checkpoint_steps: Steps = 240
    """A training that is stopped goes on from the last of every so many steps."""
    seeds: Annotated[list[SeedNumber], Field(min_length=2)] = [0, 1, 2]
    """Of the order in which sequences are learned from."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed
    """Of the choice of documents, and of the bootstrap."""

    @property
    def optimization(self) -> Optimization:
        """As a training loop takes it."""
        alike = set(Optimization.model_fields) & set(Retraining.model_fields)
        return Optimization(
            **{name: getattr(self, name) for name in alike},
            batch=self.batch_sequences,
            validate_steps=self.steps,
            patience=None,
        )

    @model_validator(mode="after")
    def _check(self) -> Retraining:
        for name in (INTACT, WITHOUT):
            if name not in self.conditions:
                raise ValueError(f"conditions lacks {name!r}, which others are compared with")
        steps = self.evaluate_steps
        if steps[0] != 0 or steps[-1] != self.steps or steps != sorted(set(steps)):
            raise ValueError(
                f"evaluate_steps is {steps}: it must rise from 0 to steps, {self.steps}"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {self.seeds} names one twice")
        return self


MEASUREMENT = Measurement(
    "retraining", Retraining, of=CELL, reads=(DATASETS, TOKENIZER, TOKENS, WEIGHTS, MASKS),
    catalogue=("F6",), uses=("torch", "transformers", "tokenizers"), subjects="retrained",
)  # fmt: skip
