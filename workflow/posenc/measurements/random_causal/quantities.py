"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities
from posenc.drawing.exhibit import Exhibit

RANDOM_CAUSAL = tuple(
    f"{name}.{key}" for name in ("first", "last") for key in ("exponent", "exponent_sd")
)


def _spread(facts: dict[str, Entry], name: str, value: Mapping[str, float]) -> None:
    facts[name], facts[f"{name}_sd"] = Number(value["mean"]), Number(value["sd"])


def random_causal(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Exponents of the variance by position, of the first and the last layer."""
    facts: dict[str, Entry] = {}
    layers = measurement["variants"][0]["layers"]
    for name, layer in (("first", layers[0]), ("last", layers[-1])):
        _spread(facts, f"{name}.exponent", layer["exponent"])
    return facts


WORDS = {
    "exponent": "exponent of the variance by position",
    "exponent_sd": "exponent of the variance by position, standard deviation over seeds",
}
QUANTITIES = Quantities(read=random_causal, names=RANDOM_CAUSAL, words=WORDS)
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
