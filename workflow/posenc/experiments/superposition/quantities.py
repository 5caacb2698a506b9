"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import FLOAT64, Facts, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.metrics.superposition import at_half

if TYPE_CHECKING:
    from posenc.experiments.superposition.result import Superposition

NO_HALF = "no two images are mixed at equal weights"
SHARE = Printed(percent=True, absent=NO_HALF)
GAP = Printed(rounding=FLOAT64, absent=NO_HALF)


def superposition(result: Superposition) -> Facts:
    """Recall of both images at equal weights, and how far networks are from additive."""
    facts: Facts = {
        "seeds": Number(len(result.seeds)),
        "chance": number(result.chance.both, SHARE),
        "pairs": Number(result.images.pairs),
        "affine_gap": number(result.affine_gap, GAP),
    }
    for classifier in result.classifiers:
        name, half = classifier.name, at_half(classifier.mixtures)
        facts[f"{name}.accuracy"] = number(classifier.accuracy, SHARE)
        facts[f"{name}.both"] = number(half.inputs.both if half else None, SHARE)
        facts[f"{name}.outputs"] = number(half.outputs.both if half else None, SHARE)
        facts[f"{name}.gap"] = number(list(half.gap.values())[-1] if half else None, GAP)
        facts[f"{name}.numbers"] = Number(classifier.numbers)
    lower = at_half(result.differences)
    facts["difference.logistic_regression"] = number(
        lower.logistic_regression if lower else None, SHARE
    )
    facts["difference.outputs"] = number(lower.outputs if lower else None, SHARE)
    return facts


QUANTITIES = quantities(__package__, "Superposition", {}, superposition)
