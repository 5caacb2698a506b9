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


def positions(one: Mapping[str, Any]) -> dict[str, Entry]:
    """What a table of position embeddings is, and what is read off it.

    A ``_control`` is of a random table of the same shape and deviation; ``_shuffled`` of the same
    rows in random order, with the least and most of the draws.
    """
    found: dict[str, Entry] = {}
    regression = one["regression"]
    for suffix, part in (("", regression), ("_control", regression["control"])):
        for name, key in (("mae", "absolute"), ("order_error", "relative")):
            value = part[key]
            found[f"{name}{suffix}"] = Number(value["mean"])
            found[f"{name}_sd{suffix}"] = Number(value["sd"])
    for suffix, part in (("", one), ("_control", one["geometry_control"])):
        gram = part["toeplitz_share"]["gram"]
        found[f"toeplitz{suffix}"] = estimate(gram, "all rows are orthogonal")
        for key in ("first_4", "first_12"):
            found[f"{key}{suffix}"] = Number(100 * part["pca"][key])  # percent, as it is published
        found[f"frequency{suffix}"] = Number(part["median_frequency"])
    waves = one["components"]
    if waves["status"] != "measured":
        names = (*WAVES, *(f"{name}_shuffled" for name in SHUFFLED))
        found |= dict.fromkeys(names, NotRun(waves["reason"]))
    else:
        found["correlation"] = Number(waves["correlation"])
        found["explained"] = Number(max(waves["principal"]))
        found["independent"] = estimate(waves["independent_largest"])
        for key in SHUFFLED:
            found[f"{key}_shuffled"] = estimate(waves[f"{key}_shuffled"])
    for key in LAST:
        found[f"last.{key}"] = Number(one["last_rows"][key])
    for key in ("rows", "d_model"):
        found[key] = Number(one["shape"][key])
    return found


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
