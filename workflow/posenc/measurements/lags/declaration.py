"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from posenc.config.base import Confidence, Samples, Section, Seed
from posenc.measurements.declaration import STUDY, Measurement


class Lags(Section):
    """Offsets that weights predict against offsets where the attention is (C3, C6)."""

    bootstrap_samples: Samples = 2000
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "lags", Lags, of=STUDY, reads=("relative_attention", "heads"), catalogue=("C3", "C6"),
    uses=("scipy",),
)  # fmt: skip
