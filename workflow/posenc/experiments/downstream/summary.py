"""What classifiers gain from position embeddings, over seeds (A6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.artifacts.command import run
from posenc.experiments.downstream.section import BAG_OF_WORDS, NO_ORDER
from posenc.experiments.summary import Trial, by_variant, over, summary_command
from posenc.metrics.downstream import chance_test
from posenc.metrics.order_sensitivity import order_sensitivity
from posenc.metrics.seeds import SHARE, difference_over_seeds, over_seeds

CHANCE = 0.5
SENSITIVITY = (0.0, 2.0)
"""Between which 1 - kappa lies."""
CONTROL = "word_swap"
KEYS = ("task", "method", "positions")


def summarise(files: list[dict[str, Any]], confidence: float) -> dict[str, Any]:
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
    return {
        "chance": CHANCE,
        "documents": {
            name: parameters[f"{name}_documents"] for name in ("training", "validation", "test")
        },
        **{name: parameters[name] for name in ("max_tokens", "excerpt", "swaps", "trained_layers")},
        "results": [
            {"task": task, "method": method, "positions": place,
             **result(trials[task, method, place], confidence)}
            for task, method in pairs for place in places
        ],
        "gains": [
            {"task": task, "method": method,
             "gain": gain(trials[task, method, "intact"], trials[task, method, "zero"], confidence)}
            for task, method in pairs
        ],
        "bags_of_words": [
            {"task": task, **result(bags[task], confidence),
             "beside": [
                 {"method": method, "positions": place,
                  "gain": gain(trials[task, method, place], bags[task], confidence)}
                 for method in methods for place in places
             ]}
            for task in tasks
        ],
        "control": [
            {"task": CONTROL, "method": method, "positions": place, **control(of_seeds, confidence)}
            for (method, place), of_seeds in controls.items()
        ],
        "shuffling": [
            {"positions": place, **pooled_change(trials[tasks[0], "frozen", place], confidence)}
            for place in places
        ],
    }  # fmt: skip


def share(trials: list[Trial], count: str, of: str = "test") -> np.ndarray:
    """A count over the number of documents, float64 [seeds]."""
    return np.array([trial[of][count] / trial[of]["documents"] for trial in trials])


def result(trials: list[Trial], confidence: float) -> dict[str, Any]:
    """What one kind of classifier does, over seeds."""
    accuracy = share(trials, "correct")  # [seeds]
    shuffled = share(trials, "correct_shuffled")  # [seeds]
    return {
        "accuracy": over_seeds(accuracy, confidence, SHARE),
        "validation_accuracy": over_seeds(
            share(trials, "correct", "validation"), confidence, SHARE
        ),
        "accuracy_shuffled": over_seeds(shuffled, confidence, SHARE),
        # Both are of the same documents.
        "lost": difference_over_seeds(accuracy, shuffled, confidence, SHARE),
        "changed": over_seeds(share(trials, "changed"), confidence, SHARE),
        "order_sensitivity": sensitivity(trials, confidence),
    }


def sensitivity(trials: list[Trial], confidence: float) -> dict[str, Any]:
    """1 - kappa over seeds; no value where a classifier answers the same throughout."""
    counts = ("documents", "positive", "positive_shuffled", "changed")
    scores = [order_sensitivity(*(trial["test"][name] for name in counts)) for trial in trials]
    defined = [score for score in scores if score is not None]
    constant = len(scores) - len(defined)
    if constant:
        return {
            "status": "not run",
            "reason": f"{constant} of {len(scores)} classifiers give all documents one label",
        }
    return {"status": "measured", "reason": None, **over_seeds(defined, confidence, SENSITIVITY)}


def gain(trials: list[Trial], others: list[Trial], confidence: float) -> dict[str, Any]:
    """Accuracy of some classifiers less that of others, paired by seed: the same documents."""
    accuracies = share(trials, "correct"), share(others, "correct")  # [seeds] each
    return difference_over_seeds(*accuracies, confidence, SHARE)


def control(trials: list[Trial], confidence: float) -> dict[str, Any]:
    """Right answers of all seeds against guessing: each label is a coin of its own."""
    correct, documents = (
        sum(trial["test"][name] for trial in trials) for name in ("correct", "documents")
    )
    return chance_test(correct, documents, confidence)


def pooled_change(trials: list[Trial], confidence: float) -> dict[str, Any]:
    """How far shuffled words move a document's mean hidden state, relative to its norm."""
    changes = [trial["pooled_change"] for trial in trials]
    return {
        **over(changes, ("mean",), confidence),
        "largest": max(change["largest"] for change in changes),
    }


main = summary_command("downstream", ["A6"], summarise)

if __name__ == "__main__":
    run(main)
