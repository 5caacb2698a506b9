"""Recall of two mixed images, and how far classifiers are from additive, over seeds (B5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posenc.artifacts.command import run
from posenc.experiments.summary import Trial, by_variant, over, summary_command
from posenc.experiments.superposition.trials import LOGISTIC, NETWORKS
from posenc.metrics.seeds import SHARE, difference_over_seeds
from posenc.metrics.superposition import absent_partner, chance

FOUND = ("both", "first", "second")


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
        ``chance``.
    """
    trials = {of_seeds[0]["variant"]["classifier"]: of_seeds for of_seeds in by_variant(files)}
    images = trials[LOGISTIC][0]["images"]
    relu = trials["relu"]
    return {
        "images": images,
        "chance": chance(images["classes"]),
        "classifiers": [
            _classifier(name, trials[name], confidence) for name in (*NETWORKS, LOGISTIC)
        ],
        "differences": [
            {
                "weight": entry["weight"],
                "logistic_regression": difference_over_seeds(
                    _recall(relu, place, "inputs"),
                    _recall(trials[LOGISTIC], place, "inputs"),
                    confidence,
                    SHARE,
                ),
                "outputs": difference_over_seeds(
                    _recall(relu, place, "inputs"),
                    _recall(relu, place, "outputs"),
                    confidence,
                    SHARE,
                ),
            }
            for place, entry in enumerate(relu[0]["mixtures"])
        ],
        "without_relu": [
            {
                "weight": entry["weight"],
                "gap": _gaps([trial["without_relu"][place]["gap"] for trial in relu], confidence),
            }
            for place, entry in enumerate(relu[0]["without_relu"])
        ],
        "affine_gap": max(_affine_gaps(trials)),
    }


def _classifier(name: str, trials: list[Trial], confidence: float) -> dict[str, Any]:
    control = {key: sum(trial["control"][key] for trial in trials) for key in ("both", "first")}
    return {
        "name": name,
        "numbers": trials[0]["numbers"],
        **over(trials, ("accuracy",), confidence, SHARE),
        "mixtures": [
            {
                "weight": entry["weight"],
                **{
                    mixed: over(
                        [trial["mixtures"][place][mixed] for trial in trials],
                        FOUND,
                        confidence,
                        SHARE,
                    )
                    for mixed in ("inputs", "outputs")
                },
                "gap": _gaps([trial["mixtures"][place]["gap"] for trial in trials], confidence),
            }
            for place, entry in enumerate(trials[0]["mixtures"])
        ],
        "control": (
            absent_partner(**control, choices=trials[0]["images"]["classes"])
            if control["first"]
            else None
        ),
    }


def _affine_gaps(trials: dict[str, list[Trial]]) -> Iterator[float]:
    """Gaps of all maps that have no ReLU, at all weights and stages."""
    for name, key in (("affine", "mixtures"), (LOGISTIC, "mixtures"), ("relu", "without_relu")):
        for trial in trials[name]:
            for entry in trial[key]:
                yield from entry["gap"].values()


def _recall(trials: list[Trial], place: int, mixed: str) -> list[float]:
    return [trial["mixtures"][place][mixed]["both"] for trial in trials]


def _gaps(gaps: list[dict[str, float]], confidence: float) -> dict[str, Any]:
    return over(gaps, gaps[0], confidence)


main = summary_command("superposition", ["B5"], summarise)

if __name__ == "__main__":
    run(main)
