"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, Quantities, estimate

REGRESSION = ("mae", "mae_sd", "order_error", "order_error_sd")
GEOMETRY = ("toeplitz", "first_4", "first_12", "frequency")
WAVES = ("correlation", "explained", "independent")
SHUFFLED = ("correlation", "explained")
LAST = ("norm", "cosine", "neighbours", "chance", "untouched")
POSITIONS = (
    *REGRESSION, *(f"{name}_control" for name in REGRESSION),
    *GEOMETRY, *(f"{name}_control" for name in GEOMETRY),
    *WAVES, *(f"{name}_shuffled" for name in SHUFFLED), *(f"last.{name}" for name in LAST),
    "rows", "d_model",
)  # fmt: skip


def positions(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What a table of position embeddings is, and what is read off it.

    A ``_control`` is of a random table of the same shape and deviation; ``_shuffled`` of the same
    rows in random order, with the least and most of the draws.
    """
    facts: dict[str, Entry] = {}
    regression = measurement["regression"]
    for suffix, part in (("", regression), ("_control", regression["control"])):
        for name, key in (("mae", "absolute"), ("order_error", "relative")):
            value = part[key]
            facts[f"{name}{suffix}"] = Number(value["mean"])
            facts[f"{name}_sd{suffix}"] = Number(value["sd"])
    for suffix, part in (("", measurement), ("_control", measurement["geometry_control"])):
        gram = part["toeplitz_share"]["gram"]
        facts[f"toeplitz{suffix}"] = estimate(gram, "all rows are orthogonal")
        for key in ("first_4", "first_12"):
            facts[f"{key}{suffix}"] = Number(100 * part["pca"][key])  # percent, as published
        facts[f"frequency{suffix}"] = Number(part["median_frequency"])
    waves = measurement["components"]
    if waves["status"] != "measured":
        names = (*WAVES, *(f"{name}_shuffled" for name in SHUFFLED))
        facts |= dict.fromkeys(names, NotRun(waves["reason"]))
    else:
        facts["correlation"] = Number(waves["correlation"])
        facts["explained"] = Number(max(waves["principal"]))
        facts["independent"] = estimate(waves["independent_largest"])
        for key in SHUFFLED:
            facts[f"{key}_shuffled"] = estimate(waves[f"{key}_shuffled"])
    for key in LAST:
        facts[f"last.{key}"] = Number(measurement["last_rows"][key])
    for key in ("rows", "d_model"):
        facts[key] = Number(measurement["shape"][key])
    return facts


WORDS = {
    "mae": "error of the position (rows)",
    "mae_sd": "error of the position, standard deviation over repeats (rows)",
    "order_error": "share of pairs put in the wrong order",
    "order_error_sd": "share of pairs put in the wrong order, standard deviation",
    "toeplitz": "share of inner products that the offset explains",
    "first_4": "variance in the 4 leading components (%)",
    "first_12": "variance in the 12 leading components (%)",
    "frequency": "frequency below which half of the columns' power lies (cycles per token)",
    "correlation": "first canonical correlation of components with waves of position",
    "explained": "largest share of a principal component that waves explain",
    "independent": "largest share of an independent component that waves explain",
    "last": "the last row",
    "norm": "norm, as a multiple of the median",
    "cosine": "cosine with the row before",
    "neighbours": "median cosine of neighbouring rows",
    "chance": "cosine of independent directions, 95 % below",
    "untouched": "rows at the end that are like no neighbour",
    "rows": "rows",
    "d_model": "columns",
}
QUANTITIES = Quantities(read=positions, names=POSITIONS, words=WORDS)
