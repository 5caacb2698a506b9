"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import number, quantities
from posenc.measurements.probes.quantities import PROBES, WORDS, probes

if TYPE_CHECKING:
    from posenc.measurements.scheme_probes.result import SchemeProbes


def schemes(result: SchemeProbes) -> Facts:
    """Probes of a decoder that was trained with another scheme, and what it was trained to."""
    return {**probes(result), "validation_loss": number(result.training.final_validation_loss)}


NAMES = (*PROBES, "validation_loss")
QUANTITIES = quantities(__package__, "SchemeProbes", {}, schemes, NAMES, WORDS)
