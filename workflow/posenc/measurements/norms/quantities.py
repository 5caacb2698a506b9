"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, Number, Quantities

NORMS = tuple(
    f"r2.{of}.{model}"
    for of in ("position_embeddings", "token_embeddings", "sum")
    for model in ("linear", "flexible")
)


def norm_facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of a measurement of norms."""
    return {
        f"r2.{of}.{model}": Number(value)
        for of, models in measurement["r2"].items()
        for model, value in models.items()
    }


WORDS = {
    "r2": "R² of position from norms",
    "position_embeddings": "of position embeddings",
    "token_embeddings": "of token embeddings",
    "sum": "of their sum",
    "linear": "straight line",
    "flexible": "flexible curve",
}
QUANTITIES = Quantities(read=norm_facts, names=NORMS, words=WORDS)
