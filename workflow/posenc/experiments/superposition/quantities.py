"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import FLOAT64, Facts, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.metrics.superposition import at_half

if TYPE_CHECKING:
    from posenc.experiments.superposition.result import Superposition

SHARE = Printed(percent=True)
GAP = Printed(rounding=FLOAT64)


def superposition(result: Superposition) -> Facts:
    """Recall of both images at equal weights, and how far networks are from additive."""
    facts: Facts = {
        "seeds": Number(len(result.seeds)),
        "chance": number(result.chance.both, SHARE),
        "pairs": Number(result.images.pairs),
        "affine_gap": number(result.affine_gap, GAP),
    }
    for classifier in result.classifiers:
        name, mixture = classifier.name, at_half(classifier.mixtures)
        facts[f"{name}.accuracy"] = number(classifier.accuracy, SHARE)
        facts[f"{name}.both"] = number(mixture.inputs.both, SHARE)
        facts[f"{name}.outputs"] = number(mixture.outputs.both, SHARE)
        facts[f"{name}.gap"] = number(list(mixture.gap.values())[-1], GAP)
        facts[f"{name}.numbers"] = Number(classifier.numbers)
    difference = at_half(result.differences)
    facts["difference.logistic_regression"] = number(difference.logistic_regression, SHARE)
    facts["difference.outputs"] = number(difference.outputs, SHARE)
    return facts


QUANTITIES = quantities(__package__, "Superposition", {}, superposition)
