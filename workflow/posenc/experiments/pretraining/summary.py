"""What pre-training, the auxiliary objective and the architecture do, over seeds (D5)."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.artifacts.command import run
from posenc.experiments.frame import SeedFile, Trial
from posenc.experiments.pretraining.result import (
    Ablation,
    Cell,
    Effect,
    LanguageModel,
    Parameters,
    Setting,
    Transfer,
)
from posenc.experiments.results import OverSeeds
from posenc.experiments.summary import by_variant, over, summary_command
from posenc.metrics.parameter_matching import relative_difference
from posenc.metrics.seeds import SHARE, difference_over_seeds, over_seeds

FACTORS = ("pretrained", "auxiliary", "architecture")
"""What is varied, in the order of the axes of a cell."""
LEVELS = {
    "pretrained": (True, False),
    "auxiliary": (True, False),
    "architecture": ("transformer", "lstm"),
}
"""Values of each factor. An effect is the first minus the second; the firsts are GPT-1."""
QUALITY = ("nll", "perplexity", "bits_per_byte")
ZERO_SHOT = ("words", "words_ranked", "control", "control_ranked")
"""What is known of a classification without fine-tuning, by the steps of the pre-training."""
CHANCE = 0.5
"""Expected accuracy without learning: there are as many documents of each of two labels."""


def summarise(files: list[SeedFile], confidence: float) -> Ablation:
    """Accuracy by cell, effect of each factor paired by seed, layers transferred.

    Parameters
    ----------
    files
        Trials of each seed.
    confidence
        Of the intervals.
    """
    stages: dict[str, list[list[Trial]]] = {"pretraining": [], "finetuning": [], "transfer": []}
    for of_seeds in by_variant(files):
        stages[of_seeds[0]["variant"]["stage"]].append(of_seeds)
    sizes = files[0]["provenance"]["parameters"]
    trials = {_cell(of_seeds[0]): of_seeds for of_seeds in stages["finetuning"]}
    accuracy = {
        cell: np.array([t["accuracy"] for t in of_cell]) for cell, of_cell in trials.items()
    }
    new = accuracy[False, True, "transformer"]  # [seeds]
    return Ablation(
        dataset=sizes["dataset"],
        sizes={key: value for key, value in sizes.items() if not isinstance(value, dict)},
        auxiliary_weight=sizes["auxiliary_weight"],
        chance=CHANCE,
        parameters=_parameters([of_seeds[0] for of_seeds in stages["pretraining"]]),
        language_models=[
            _language_model(of_seeds, confidence) for of_seeds in stages["pretraining"]
        ],
        cells=[
            Cell.model_validate(
                {
                    **dict(zip(FACTORS, cell, strict=True)),
                    **over(of_cell, ("accuracy", "validation_accuracy"), confidence, SHARE),
                    **over(of_cell, ("validation_loss", "test_loss"), confidence),
                    **over(of_cell, ("best_step", "steps"), confidence),
                }
            )
            for cell, of_cell in trials.items()
        ],
        effects=[effect(factor, accuracy, confidence) for factor in FACTORS],
        transfer=[
            Transfer(
                layers=layers,
                accuracy=OverSeeds(**over_seeds(accuracies, confidence, SHARE)),
                gain=_difference(accuracies, new, confidence),
            )
            for layers, accuracies in _transferred(stages["transfer"], accuracy)
        ],
    )


def effect(factor: str, accuracy: dict[tuple, NDArray[np.float64]], confidence: float) -> Effect:
    """What a factor changes, paired by seed: in each setting of the others, and on average.

    Parameters
    ----------
    factor
        One of :data:`FACTORS`.
    accuracy
        [seeds] of each cell.
    confidence
        Of the intervals.
    """
    others = [name for name in FACTORS if name != factor]
    settings = []
    for values in itertools.product(*(LEVELS[name] for name in others)):
        setting = dict(zip(others, values, strict=True))
        first, second = (
            accuracy[tuple({**setting, factor: level}[name] for name in FACTORS)]
            for level in LEVELS[factor]
        )  # [seeds] each
        settings.append((setting, first, second))
    first = np.mean([a for _, a, _ in settings], axis=0)  # [seeds]
    second = np.mean([b for _, _, b in settings], axis=0)  # [seeds]
    return Effect(
        factor=factor,
        levels=list(LEVELS[factor]),
        average=_difference(first, second, confidence),
        settings=[
            Setting.model_validate({**setting, "difference": _difference(a, b, confidence)})
            for setting, a, b in settings
        ],
    )


def _difference(values: ArrayLike, reference: ArrayLike, confidence: float) -> OverSeeds:
    """Shares minus others, [seeds] each, paired by seed."""
    return OverSeeds(**difference_over_seeds(values, reference, confidence, SHARE))


def _cell(trial: Trial) -> tuple[bool, bool, str]:
    """The cell of a trial: its values of the factors."""
    variant = trial["variant"]
    return variant["pretrained"], variant["auxiliary_weight"] > 0, variant["architecture"]


def _parameters(trials: list[Trial]) -> Parameters:
    """Numbers of parameters by architecture, and how far they are apart."""
    counts = {trial["variant"]["architecture"]: trial["parameters"] for trial in trials}
    return Parameters(**counts, relative_difference=relative_difference(*counts.values()))


def _language_model(trials: list[Trial], confidence: float) -> LanguageModel:
    """Quality of one architecture's pre-trained language model, one trial per seed."""
    curves = list(zip(*(trial["zero_shot"] for trial in trials), strict=True))  # [steps][seeds]
    return LanguageModel.model_validate(
        {
            "architecture": trials[0]["variant"]["architecture"],
            **over(trials, ("validation_loss", "best_step", "steps"), confidence),
            "validation": over([trial["validation"] for trial in trials], QUALITY, confidence),
            "test": over([trial["test"] for trial in trials], QUALITY, confidence),
            "zero_shot": [
                {"step": rows[0]["step"], **over(list(rows), ZERO_SHOT, confidence, SHARE)}
                for rows in curves
            ],
            "zero_shot_gain": {
                key: _difference(
                    [row[key] for row in curves[-1]], [row[key] for row in curves[0]], confidence
                )
                for key in ZERO_SHOT
            },
        }
    )


def _transferred(
    stage: list[list[Trial]], accuracy: dict[tuple, NDArray[np.float64]]
) -> list[tuple[int, NDArray[np.float64]]]:
    """Number of layers and accuracy, [seeds]; all layers are a cell of the ablation."""
    accuracies = [np.array([trial["accuracy"] for trial in of_seeds]) for of_seeds in stage]
    return list(enumerate([*accuracies, accuracy[True, True, "transformer"]]))


main = summary_command("pretraining", ["D5"], summarise)

if __name__ == "__main__":
    run(main)
