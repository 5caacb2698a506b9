"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.architectures.needs import Need
from posenc.config.base import Length, Line, Section
from posenc.measurements.declaration import MODEL, TOKENIZER, WEIGHTS, Measurement


class SampleScores(Section):
    """Attention scores of one sentence, with positions and without (C6)."""

    sentence: Line = "The first film was dull but the second one was great."
    """What readers look at on the report page."""
    tokens: Annotated[Length, Field(ge=2, le=32)] = 24
    """The sentence is cut to this many tokens; numbers grow with the square."""


MEASUREMENT = Measurement(
    "sample_scores", SampleScores, of=MODEL, reads=(TOKENIZER, WEIGHTS), catalogue=("C6",),
    uses=("torch", "transformers", "tokenizers"), subjects="models",
    needs=(Need.PATTERNS,),
)  # fmt: skip
