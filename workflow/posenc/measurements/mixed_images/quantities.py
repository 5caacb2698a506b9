"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, Number, Quantities, entry_at, estimate, percent
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.embedding_sums.quantities import HALF


def mixed_images(one: Mapping[str, Any]) -> Facts:
    """What is found of two photographs at equal weights: their classes, and both by stage."""
    found: Facts = {
        "pictures": Number(len(one["images"])),
        "recognised": Number(one["recognised"]),
        "pairs": Number(one["pairs"]),
        "classes": Number(one["network"]["classes"]),
        "chance": percent(one["chance"]["both"]),
        "published": percent(one["published"]["both"]),
    }
    half = entry_at(one["mixtures"], "weight", HALF)
    for entry in half["faded"]:
        found[f"faded.{entry['top']}"] = percent(entry["share"])
    for entry in half["found"]:
        place = f"{entry['among']}.{entry['top']}"
        for key in ("both", "either", "outputs", "lost", "others", "absent", "beyond_absent"):
            found[f"{place}.{key}"] = percent(entry[key])
    for entry in one["stages"]:
        place = entry["stage"].replace(" ", "_")
        found[f"{place}.difference"] = percent(entry["difference"])
        for network in ("trained", "untrained"):
            found[f"{place}.{network}.both"] = percent(entry[network]["inputs"])
            found[f"{place}.{network}.outputs"] = percent(entry[network]["outputs"])
            found[f"{place}.{network}.gap"] = estimate(entry[network]["gap"])
    return found


QUANTITIES = Quantities(
    read=mixed_images,
)
FIGURE = Exhibit(
    "B5 mixed images",
    ("mixed_images",),
    height=3.2,
    caption="Does a pretrained network find both of two averaged photographs? Pairs whose two "
    "classes are among the highest, of all classes and of those of the pictures alone, by the "
    "mixing weight (dashed: outputs are mixed in place of pictures; grey: pictures that are "
    "found where grey is mixed in); and stage by stage, for equal weights, pairs that are the "
    "two pictures nearest to the state of their average, and the distance of the network from "
    "additive, with its weights and with initial ones.",
    alt="Line charts: share of pairs whose classes are both found against the mixing weight; "
    "share of pairs that are found again, and distance from additivity, at each stage of a "
    "trained and of an untrained network.",
)
