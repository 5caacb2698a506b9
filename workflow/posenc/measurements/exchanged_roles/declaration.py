"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Confidence, Documents, Samples, Section, Seed
from posenc.measurements.declaration import MODEL, TOKENIZER, WEIGHTS, Measurement

Language = Literal["english", "japanese"]


class ExchangedRoles(Section):
    """Vectors of sentences with their names exchanged (A1)."""

    languages: Annotated[list[Language], Field(min_length=1)] = ["english", "japanese"]
    """Of the sentences."""
    sentences: Annotated[Documents, Field(ge=2)] = 200
    """Of each language."""
    bootstrap_samples: Samples
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "exchanged_roles", ExchangedRoles, of=MODEL, reads=(TOKENIZER, WEIGHTS), catalogue=("A1",),
    uses=("torch", "transformers", "tokenizers"),
    needs=(Need.PATTERNS,),
)  # fmt: skip
