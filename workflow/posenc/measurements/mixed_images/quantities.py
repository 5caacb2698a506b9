"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit
from posenc.metrics.superposition import at_half

if TYPE_CHECKING:
    from posenc.measurements.mixed_images.result import MixedPhotographs

SHARES = ("both", "either", "outputs", "lost", "others", "absent", "beyond_absent")
PERCENT = Printed(percent=True)
OF_HALF = Printed(percent=True, absent="no two photographs are mixed at equal weights")


def mixed_images(result: MixedPhotographs) -> Facts:
    """What is found of two photographs at equal weights: their classes, and both by stage."""
    facts: Facts = {
        "pictures": Number(len(result.images)),
        "recognised": Number(result.recognised),
        "pairs": Number(result.pairs),
        "classes": Number(result.network.classes),
        "chance": number(result.chance.both, PERCENT),
        "published": number(result.published.both, PERCENT),
    }
    half = at_half(result.mixtures)
    any_weight = half or result.mixtures[0]
    for faded in any_weight.faded:
        facts[f"faded.{faded.top}"] = number(faded.share if half else None, OF_HALF)
    for found in any_weight.found:
        for name in SHARES:
            share = getattr(found, name) if half else None
            facts[f"{found.among}.{found.top}.{name}"] = number(share, OF_HALF)
    for stage in result.stages:
        place = stage.stage.replace(" ", "_")
        facts[f"{place}.difference"] = number(stage.difference, PERCENT)
        for network, recall in (("trained", stage.trained), ("untrained", stage.untrained)):
            facts[f"{place}.{network}.both"] = number(recall.inputs, PERCENT)
            facts[f"{place}.{network}.outputs"] = number(recall.outputs, PERCENT)
            facts[f"{place}.{network}.gap"] = number(recall.gap)
    return facts


QUANTITIES = quantities(__package__, "MixedPhotographs", {}, mixed_images)
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
