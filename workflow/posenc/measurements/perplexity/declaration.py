"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from posenc.config.base import Confidence, Samples, Section, Seed
from posenc.measurements.declaration import ACTIVATIONS, RUN, Measurement


class Perplexity(Section):
    """Corpus perplexity, and its change under a condition, paired by document (D1)."""

    bootstrap_samples: Samples = 2000
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "perplexity", Perplexity, of=RUN, reads=(ACTIVATIONS,), catalogue=("D1",), always=True
)
