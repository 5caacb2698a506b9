"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.random_causal.result import RandomModels

EXPONENTS = tuple(
    f"{name}.{key}" for name in ("first", "last") for key in ("exponent", "exponent_sd")
)


def exponents(result: RandomModels) -> Facts:
    """Exponents of the variance by position, of the first and the last layer."""
    layers = result.variants[0].layers
    facts: Facts = {}
    for name, layer in (("first", layers[0]), ("last", layers[-1])):
        facts[f"{name}.exponent"] = Number(layer.exponent.mean)
        facts[f"{name}.exponent_sd"] = Number(layer.exponent.sd)
    return facts


WORDS = {
    "exponent": "exponent of the variance by position",
    "exponent_sd": "exponent of the variance by position, standard deviation over seeds",
}
QUANTITIES = quantities(__package__, "RandomModels", {}, exponents, EXPONENTS, WORDS)
FIGURE = Exhibit(
    "B4 probes",
    ("random_causal",),
    height=2.4,
    width=3.3,
    caption="Variance of the output of attention by position, times the position, in causal "
    "models with random weights; the law of the first layer is the constant.",
    alt="Line chart on logarithmic axes: variance against position in causal models with "
    "random weights.",
)
