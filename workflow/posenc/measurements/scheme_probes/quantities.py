"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from posenc.artifacts.numbers import Facts
from posenc.artifacts.printing import number, quantities
from posenc.measurements.probes.quantities import PROBES, WORDS, probes
from posenc.measurements.scheme_probes.result import SchemeProbes


def schemes(result: SchemeProbes) -> Facts:
    """Probes of a decoder that was trained with another scheme, and what it was trained to."""
    return {**probes(result), "validation_loss": number(result.training.final_validation_loss)}


QUANTITIES = quantities(SchemeProbes, {}, schemes, (*PROBES, "validation_loss"), WORDS)
