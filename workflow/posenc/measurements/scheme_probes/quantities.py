"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities
from posenc.measurements.probes.quantities import PROBES, probes
from posenc.measurements.probes.quantities import WORDS as PROBE_WORDS

SCHEMES = (*PROBES, "validation_loss")


def schemes(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Probes of a decoder that was trained with another scheme, and what it was trained to."""
    loss = Number(measurement["training"]["final_validation_loss"])
    return {**probes(measurement), "validation_loss": loss}


WORDS = PROBE_WORDS
QUANTITIES = Quantities(read=schemes, names=SCHEMES, words=WORDS)
