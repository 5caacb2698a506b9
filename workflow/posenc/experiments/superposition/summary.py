"""Recall of two mixed images, and how far classifiers are from additive, over seeds (B5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posenc.artifacts.command import run
from posenc.experiments.frame import summary_command
from posenc.experiments.superposition.trials import LOGISTIC, NETWORKS, PRETRAINED
from posenc.metrics.seeds import difference_over_seeds, over_seeds
from posenc.metrics.superposition import absent_partner, chance

FOUND = ("both", "first", "second")
PUBLISHED = {
    "classifier": "ResNet-50", "images": ["panda", "banana"], "weight": 0.5, "found": 0,
    "both": 0.0,
}  # fmt: skip
"""What the document found that the question comes from (S1): neither of the two, of one pair. The
images had equal weights; whether their sum was halved is not known."""


def summarise(files: list[dict[str, Any]], confidence: float) -> dict[str, Any]:
    """Means over seeds with intervals.

    Parameters
    ----------
    files
        The trials of each seed.
    confidence
        Of the intervals.

    Returns
    -------
    dict
        ``classifiers`` with accuracy, ``mixtures`` by weight and the control; ``differences``, by
        weight and paired by seed: the residual network's recall of both less that of the logistic
        regression, and less that of its own mixed outputs; ``without_relu``, the gap of the trained
        network whose ReLUs are taken out; ``affine_gap``, the largest of all maps without ReLUs;
        ``chance``; and the pretrained network's results.
    """
    trials = [{one["variant"]["classifier"]: one for one in file["trials"]} for file in files]
    images = trials[0][LOGISTIC]["images"]
    classifiers = [
        _classifier(name, [one[name] for one in trials], confidence)
        for name in (*NETWORKS, LOGISTIC)
    ]
    relu = [one["relu"] for one in trials]
    return {
        "images": images,
        "chance": chance(images["classes"]),
        "classifiers": classifiers,
        "differences": [
            {
                "weight": entry["weight"],
                "logistic_regression": difference_over_seeds(
                    _recall(relu, place, "inputs"),
                    _recall([one[LOGISTIC] for one in trials], place, "inputs"),
                    confidence,
                ),
                "outputs": difference_over_seeds(
                    _recall(relu, place, "inputs"), _recall(relu, place, "outputs"), confidence
                ),
            }
            for place, entry in enumerate(relu[0]["mixtures"])
        ],
        "without_relu": [
            {"weight": entry["weight"],
             "gap": _gaps([one["without_relu"][place]["gap"] for one in relu], confidence)}
            for place, entry in enumerate(relu[0]["without_relu"])
        ],
        "affine_gap": max(_affine_gaps(trials)),
        # It has no seed: all files have the same.
        "pretrained": {k: v for k, v in trials[0][PRETRAINED].items() if k != "variant"},
        "published": PUBLISHED,
    }  # fmt: skip


def _classifier(name: str, trials: list[dict[str, Any]], confidence: float) -> dict[str, Any]:
    control = {key: sum(one["control"][key] for one in trials) for key in ("both", "first")}
    return {
        "name": name,
        "numbers": trials[0]["numbers"],
        "accuracy": over_seeds([one["accuracy"] for one in trials], confidence),
        "mixtures": [
            {
                "weight": entry["weight"],
                **{
                    mixed: {
                        key: over_seeds(_recall(trials, place, mixed, key), confidence)
                        for key in FOUND
                    }
                    for mixed in ("inputs", "outputs")
                },
                "gap": _gaps([one["mixtures"][place]["gap"] for one in trials], confidence),
            }
            for place, entry in enumerate(trials[0]["mixtures"])
        ],
        "control": (
            absent_partner(**control, choices=trials[0]["images"]["classes"])
            if control["first"]
            else None
        ),
    }


def _affine_gaps(trials: list[dict[str, Any]]) -> Iterator[float]:
    """Gaps of all maps that have no ReLU, at all weights and stages."""
    for one in trials:
        for entries in (
            one["affine"]["mixtures"], one[LOGISTIC]["mixtures"], one["relu"]["without_relu"],
        ):  # fmt: skip
            for entry in entries:
                yield from entry["gap"].values()


def _recall(trials: list[dict[str, Any]], place: int, mixed: str, key: str = "both") -> list[float]:
    return [one["mixtures"][place][mixed][key] for one in trials]


def _gaps(gaps: list[dict[str, float]], confidence: float) -> dict[str, Any]:
    return {name: over_seeds([one[name] for one in gaps], confidence) for name in gaps[0]}


main = summary_command("superposition", ["B5"], summarise)

if __name__ == "__main__":
    run(main)
