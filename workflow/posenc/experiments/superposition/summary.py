"""Recall of two mixed images, and how far classifiers are from additive, over seeds (B5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from posenc.artifacts.command import run
from posenc.experiments.frame import SeedFile, Trial
from posenc.experiments.results import OverSeeds
from posenc.experiments.summary import by_variant, summary_command
from posenc.experiments.superposition.result import (
    Chance,
    Classifier,
    Control,
    Difference,
    Gap,
    Images,
    Mixture,
    Recall,
    Superposition,
)
from posenc.experiments.superposition.trials import LOGISTIC, NETWORKS
from posenc.metrics.seeds import SHARE, Bounds, difference_over_seeds, over_seeds
from posenc.metrics.superposition import absent_partner, chance


def summarise(files: list[SeedFile], confidence: float) -> Superposition:
    """Means over seeds with intervals.

    Parameters
    ----------
    files
        The trials of each seed.
    confidence
        Of the intervals.
    """
    trials = {of_seeds[0]["variant"]["classifier"]: of_seeds for of_seeds in by_variant(files)}
    images = Images(**trials[LOGISTIC][0]["images"])
    relu = trials["relu"]
    return Superposition(
        images=images,
        chance=Chance(**chance(images.classes)),
        classifiers=[_classifier(name, trials[name], confidence) for name in (*NETWORKS, LOGISTIC)],
        differences=[
            Difference(
                weight=mixture["weight"],
                logistic_regression=_difference(
                    _recall(relu, place, "inputs"),
                    _recall(trials[LOGISTIC], place, "inputs"),
                    confidence,
                ),
                outputs=_difference(
                    _recall(relu, place, "inputs"), _recall(relu, place, "outputs"), confidence
                ),
            )
            for place, mixture in enumerate(relu[0]["mixtures"])
        ],
        without_relu=[
            Gap(
                weight=mixture["weight"],
                gap=_gap([trial["without_relu"][place]["gap"] for trial in relu], confidence),
            )
            for place, mixture in enumerate(relu[0]["without_relu"])
        ],
        affine_gap=max(_affine_gaps(trials)),
    )


def _classifier(name: str, trials: list[Trial], confidence: float) -> Classifier:
    accuracies = [trial["accuracy"] for trial in trials]
    return Classifier(
        name=name,
        numbers=trials[0]["numbers"],
        accuracy=_over(accuracies, confidence, SHARE),
        mixtures=[
            _mixture([trial["mixtures"][place] for trial in trials], confidence)
            for place in range(len(trials[0]["mixtures"]))
        ],
        control=_control(trials),
    )


def _mixture(mixtures: list[Mapping[str, Any]], confidence: float) -> Mixture:
    """What a classifier finds at one weight; ``mixtures`` are of all seeds."""

    def recall(mixed: str) -> Recall:
        both, first, second = (
            _over([mixture[mixed][part] for mixture in mixtures], confidence, SHARE)
            for part in ("both", "first", "second")
        )
        return Recall(both=both, first=first, second=second)

    return Mixture(
        weight=mixtures[0]["weight"],
        inputs=recall("inputs"),
        outputs=recall("outputs"),
        gap=_gap([mixture["gap"] for mixture in mixtures], confidence),
    )


def _control(trials: list[Trial]) -> Control | None:
    both, first = (sum(trial["control"][part] for trial in trials) for part in ("both", "first"))
    if not first:
        return None
    test = absent_partner(both, first, trials[0]["images"]["classes"])
    return Control(**test._asdict())


def _affine_gaps(trials: dict[str, list[Trial]]) -> Iterator[float]:
    """Gaps of all maps that have no ReLU, at all weights and stages."""
    for name, key in (("affine", "mixtures"), (LOGISTIC, "mixtures"), ("relu", "without_relu")):
        for trial in trials[name]:
            for entry in trial[key]:
                yield from entry["gap"].values()


def _recall(trials: list[Trial], place: int, mixed: str) -> list[float]:
    return [trial["mixtures"][place][mixed]["both"] for trial in trials]


def _difference(own: list[float], other: list[float], confidence: float) -> OverSeeds:
    return OverSeeds(**difference_over_seeds(own, other, confidence, SHARE))


def _gap(gaps: list[dict[str, float]], confidence: float) -> dict[str, OverSeeds]:
    """Distance from additive by stage; ``gaps`` are of all seeds."""
    return {stage: _over([gap[stage] for gap in gaps], confidence) for stage in gaps[0]}


def _over(values: list[float], confidence: float, bounds: Bounds | None = None) -> OverSeeds:
    return OverSeeds(**over_seeds(values, confidence, bounds))


main = summary_command("superposition", ["B5"], summarise)

if __name__ == "__main__":
    run(main)
