"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, Length, Line, Name, Samples, Section, Seed
from posenc.measurements.declaration import (
    CELL,
    DATASETS,
    INTACT,
    MASKS,
    TOKENIZER,
    TOKENS,
    WEIGHTS,
    Measurement,
)

FIELD = "{question}"


class Choices(Section):
    """Questions with right and wrong answers: MC1, MC2 and losses of the right ones (A5, F4)."""

    questions: Annotated[Documents, Field(ge=2)] = 75
    """At most so many of a data set, drawn from those that a study evaluates."""
    primer: list[Line] = []
    """Lines before each prompt, such as answered questions; none for no primer."""
    prompt: Annotated[list[Line], Field(min_length=1)] = ["Q: {question}", "A:"]
    """Lines that an answer follows, after a space; ``{question}`` stands for the question.
    As the harness's prompt, which has a primer too."""
    conditions: Annotated[list[Name], Field(min_length=1)] = [
        "intact",
        "zero",
        "zero_closed",
        "placebo_heads",
        "zero_fitted",
        "intact_fitted",
        "fitted",
        "zero_scores_fitted",
        "intact_fitted_short",
    ]
    """Of those that a model is evaluated under, the ones that are measured."""
    batch_tokens: Length = 4096
    """Tokens of one forward pass, all conditions of the pass included."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed

    @field_validator("prompt")
    @classmethod
    def _check_prompt(cls, prompt: list[str]) -> list[str]:
        if not any(FIELD in line for line in prompt):
            raise ValueError(f"there is no {FIELD} in it")
        return prompt

    @field_validator("conditions")
    @classmethod
    def _check_conditions(cls, conditions: list[str]) -> list[str]:
        if INTACT not in conditions:
            raise ValueError(f"{INTACT} is not among them, which the others are compared with")
        return conditions


MEASUREMENT = Measurement(
    "choices", Choices, of=CELL, reads=(DATASETS, TOKENIZER, TOKENS, WEIGHTS, MASKS),
    catalogue=("A5", "F4"), uses=("torch", "transformers", "tokenizers"), subjects="models",
    needs=(Need.LOSS,),
)  # fmt: skip
