"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, NotRun, Number, Quantities, estimate, percent
from posenc.drawing.exhibit import Exhibit

DOWNSTREAM = (
    "seeds", "chance", *(f"documents.{name}" for name in ("training", "validation", "test")),
    *(f"control.{method}.{key}" for method in ("frozen", "fine_tuned", "bag_of_words")
      for key in ("accuracy", "p_value")),
    *(f"{task}.bag_of_words.{key}" for task in ("sentiment", "word_swap")
      for key in ("accuracy", *(f"{positions}.{method}.more" for positions in ("intact", "zero")
                                for method in ("frozen", "fine_tuned")))),
    *(f"{task}.{method}.{key}" for task in ("sentiment", "word_swap")
      for method in ("frozen", "fine_tuned")
      for key in ("gain", *(f"{positions}.{quantity}" for positions in ("intact", "zero")
                            for quantity in ("accuracy", "accuracy_shuffled", "changed",
                                        "order_sensitivity")))),
    *(f"shuffled.{positions}.mean_change" for positions in ("intact", "zero")),
)  # fmt: skip


def downstream(measurement: Mapping[str, Any]) -> Facts:
    """Accuracies, what positions gain, and the control."""
    facts: Facts = {
        **dict.fromkeys(DOWNSTREAM, NotRun("the experiment has no such task")),
        "seeds": Number(len(measurement["seeds"])),
        "chance": percent(measurement["chance"]),
        **{f"documents.{key}": Number(value) for key, value in measurement["documents"].items()},
    }
    for entry in measurement["results"]:
        place = f"{entry['task']}.{entry['method']}.{entry['positions']}"
        for key in ("accuracy", "accuracy_shuffled", "changed"):
            facts[f"{place}.{key}"] = percent(entry[key])
        sensitivity = entry["order_sensitivity"]
        measured = sensitivity["status"] == "measured"
        facts[f"{place}.order_sensitivity"] = estimate(
            sensitivity if measured else None, sensitivity["reason"] or ""
        )
    for entry in measurement["gains"]:
        facts[f"{entry['task']}.{entry['method']}.gain"] = percent(entry["gain"])
    for entry in measurement["bags_of_words"]:
        bag = f"{entry['task']}.bag_of_words"
        facts[f"{bag}.accuracy"] = percent(entry["accuracy"])
        for other in entry["beside"]:
            more = percent(other["gain"])
            facts[f"{bag}.{other['positions']}.{other['method']}.more"] = more
    for entry in measurement["control"]:
        facts[f"control.{entry['method']}.accuracy"] = percent(entry["accuracy"])
        facts[f"control.{entry['method']}.p_value"] = Number(entry["p_value"])
    for entry in measurement["shuffling"]:
        facts[f"shuffled.{entry['positions']}.mean_change"] = percent(entry["mean"])
    return facts


WORDS = {
    "accuracy": "accuracy (%)",
    "accuracy_shuffled": "accuracy with shuffled words (%)",
    "changed": "predictions that shuffling changes (%)",
    "order_sensitivity": "order sensitivity (1 − κ)",
    "gain": "gain from positions (percentage points)",
    "more": "accuracy, more than the bag of words (percentage points)",
    "chance": "chance (%)",
    "p_value": "p-value against chance",
    "mean_change": "how far shuffled words move the mean state, of its length (%)",
}
QUANTITIES = Quantities(read=downstream, names=DOWNSTREAM, words=WORDS)
FIGURE = Exhibit(
    "A6 downstream",
    ("downstream",),
    height=2.8,
    caption="Accuracy of classifiers with and without position embeddings or rotation, and of "
    "a bag of the same words; and what positions add against how far the classifier depends on "
    "the order of words: one minus Cohen's kappa of its answers to documents and to the same "
    "ones with their words shuffled, beyond what chance agrees.",
    alt="Points with intervals: test accuracy of each method on each task, and the gain from "
    "positions against how sensitive a task is to order.",
)
