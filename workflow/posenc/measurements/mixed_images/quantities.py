"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, Number, Quantities, entry_at, estimate, percent
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.embedding_sums.quantities import HALF


def mixed_images(measurement: Mapping[str, Any]) -> Facts:
    """What is found of two photographs at equal weights: their classes, and both by stage."""
    facts: Facts = {
        "pictures": Number(len(measurement["images"])),
        "recognised": Number(measurement["recognised"]),
        "pairs": Number(measurement["pairs"]),
        "classes": Number(measurement["network"]["classes"]),
        "chance": percent(measurement["chance"]["both"]),
        "published": percent(measurement["published"]["both"]),
    }
    half = entry_at(measurement["mixtures"], "weight", HALF)
    for entry in half["faded"]:
        facts[f"faded.{entry['top']}"] = percent(entry["share"])
    for entry in half["found"]:
        place = f"{entry['among']}.{entry['top']}"
        for key in ("both", "either", "outputs", "lost", "others", "absent", "beyond_absent"):
            facts[f"{place}.{key}"] = percent(entry[key])
    for entry in measurement["stages"]:
        place = entry["stage"].replace(" ", "_")
        facts[f"{place}.difference"] = percent(entry["difference"])
        for network in ("trained", "untrained"):
            facts[f"{place}.{network}.both"] = percent(entry[network]["inputs"])
            facts[f"{place}.{network}.outputs"] = percent(entry[network]["outputs"])
            facts[f"{place}.{network}.gap"] = estimate(entry[network]["gap"])
    return facts


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
