"""What classifiers gain from position embeddings, over seeds (A6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.results import Interval
from posenc.experiments.downstream.result import (
    Advantage,
    Answers,
    BagOfWords,
    Classifier,
    Constant,
    Control,
    Documents,
    Downstream,
    Gain,
    OrderSensitivity,
    Shuffling,
)
from posenc.experiments.downstream.section import BAG_OF_WORDS, NO_ORDER
from posenc.experiments.frame import SeedFile, Trial
from posenc.experiments.results import OverSeeds
from posenc.experiments.summary import by_variant, summary_command
from posenc.metrics.downstream import chance_test
from posenc.metrics.order_sensitivity import order_sensitivity
from posenc.metrics.seeds import SHARE, difference_over_seeds, over_seeds

CHANCE = 0.5
SENSITIVITY = (0.0, 2.0)
"""Between which 1 - kappa lies."""
CONTROL = "word_swap"
KEYS = ("task", "method", "positions")


def summarise(files: list[SeedFile], confidence: float) -> Downstream:
    """Accuracies, gains from positions, the control's test, and sensitivity to order.

    Parameters
    ----------
    files
        Contents of the seeds' files, in the order of the seeds.
    confidence
        Of the intervals.
    """
    parameters = files[0]["provenance"]["parameters"]
    trials = {
        tuple(of_seeds[0]["variant"][k] for k in KEYS): of_seeds for of_seeds in by_variant(files)
    }
    tasks = parameters["tasks"]
    bags = {task: trials.pop((task, BAG_OF_WORDS, NO_ORDER)) for task in tasks}
    methods = list(dict.fromkeys(method for _, method, _ in trials))
    places = list(dict.fromkeys(positions for _, _, positions in trials))
    controls = {}
    if CONTROL in tasks:
        controls = {(method, "zero"): trials[CONTROL, method, "zero"] for method in methods}
        controls[BAG_OF_WORDS, NO_ORDER] = bags[CONTROL]
    pairs = [(task, method) for task in tasks for method in methods]
    return Downstream(
        chance=CHANCE,
        documents=Documents(
            training=parameters["training_documents"],
            validation=parameters["validation_documents"],
            test=parameters["test_documents"],
        ),
        max_tokens=parameters["max_tokens"],
        excerpt=parameters["excerpt"],
        swaps=parameters["swaps"],
        trained_layers=parameters["trained_layers"],
        results=[
            Classifier(
                task=task,
                method=method,
                positions=place,
                **dict(answers(trials[task, method, place], confidence)),
            )
            for task, method in pairs
            for place in places
        ],
        gains=[
            Gain(
                task=task,
                method=method,
                gain=gain(trials[task, method, "intact"], trials[task, method, "zero"], confidence),
            )
            for task, method in pairs
        ],
        bags_of_words=[
            BagOfWords(
                task=task,
                beside=[
                    Advantage(
                        method=method,
                        positions=place,
                        gain=gain(trials[task, method, place], bags[task], confidence),
                    )
                    for method in methods
                    for place in places
                ],
                **dict(answers(bags[task], confidence)),
            )
            for task in tasks
        ],
        control=[
            control(method, place, of_seeds, confidence)
            for (method, place), of_seeds in controls.items()
        ],
        shuffling=[
            shuffling(place, trials[tasks[0], "frozen", place], confidence) for place in places
        ],
    )


def share(trials: list[Trial], count: str, of: str = "test") -> NDArray[np.float64]:  # [seeds]
    """A count over the number of documents."""
    return np.array([trial[of][count] / trial[of]["documents"] for trial in trials])


def answers(trials: list[Trial], confidence: float) -> Answers:
    """What one kind of classifier does, over seeds."""
    accuracy = share(trials, "correct")  # [seeds]
    shuffled = share(trials, "correct_shuffled")  # [seeds]
    validation = share(trials, "correct", "validation")  # [seeds]
    return Answers(
        accuracy=OverSeeds(**over_seeds(accuracy, confidence, SHARE)),
        validation_accuracy=OverSeeds(**over_seeds(validation, confidence, SHARE)),
        accuracy_shuffled=OverSeeds(**over_seeds(shuffled, confidence, SHARE)),
        # Both are of the same documents.
        lost=OverSeeds(**difference_over_seeds(accuracy, shuffled, confidence, SHARE)),
        changed=OverSeeds(**over_seeds(share(trials, "changed"), confidence, SHARE)),
        order_sensitivity=sensitivity(trials, confidence),
    )


def sensitivity(trials: list[Trial], confidence: float) -> OrderSensitivity | Constant:
    """1 - kappa over seeds; no value where a classifier answers the same throughout."""
    counts = ("documents", "positive", "positive_shuffled", "changed")
    scores = [order_sensitivity(*(trial["test"][name] for name in counts)) for trial in trials]
    defined = [score for score in scores if score is not None]
    constant = len(scores) - len(defined)
    if constant:
        reason = f"{constant} of {len(scores)} classifiers give all documents one label"
        return Constant(status="not run", reason=reason)
    mean = over_seeds(defined, confidence, SENSITIVITY)
    return OrderSensitivity(status="measured", reason=None, **mean)


def gain(trials: list[Trial], others: list[Trial], confidence: float) -> OverSeeds:
    """Accuracy of some classifiers less that of others, paired by seed: the same documents."""
    accuracies = share(trials, "correct"), share(others, "correct")  # [seeds] each
    return OverSeeds(**difference_over_seeds(*accuracies, confidence, SHARE))


def control(method: str, positions: str, trials: list[Trial], confidence: float) -> Control:
    """Right answers of all seeds against guessing: each label is a coin of its own."""
    correct, documents = (
        sum(trial["test"][name] for trial in trials) for name in ("correct", "documents")
    )
    test = chance_test(correct, documents, confidence)
    return Control(
        task=CONTROL,
        method=method,
        positions=positions,
        correct=test.correct,
        documents=test.documents,
        accuracy=Interval.of(test.accuracy),
        p_value=test.p_value,
    )


def shuffling(positions: str, trials: list[Trial], confidence: float) -> Shuffling:
    """How far shuffled words move a document's mean hidden state, relative to its norm."""
    changes = [trial["pooled_change"] for trial in trials]
    return Shuffling(
        positions=positions,
        mean=OverSeeds(**over_seeds([change["mean"] for change in changes], confidence)),
        largest=max(change["largest"] for change in changes),
    )


main = summary_command("downstream", ["A6"], summarise)

if __name__ == "__main__":
    run(main)
