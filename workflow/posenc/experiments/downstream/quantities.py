"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, NotRun, Number
from posenc.artifacts.printing import By, Fields, Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.experiments.downstream.result import Downstream

TASKS, METHODS = ("sentiment", "word_swap"), ("frozen", "fine_tuned")
POSITIONS = ("intact", "zero")
"""Of tasks, methods and positions, those that documents speak of."""
NO_TASK = "the experiment has no such task"
PLACES = tuple(".".join(place) for place in itertools.product(TASKS, METHODS, POSITIONS))
PRINTED: Fields = {
    "chance": Printed("chance (%)", percent=True),
    "documents": Printed(),
    **{f"documents.{part}": Printed() for part in ("training", "validation", "test")},
    "results": By("place", spoken=PLACES, absent=NO_TASK),
    "results.accuracy": Printed("accuracy (%)", percent=True),
    "results.accuracy_shuffled": Printed("accuracy with shuffled words (%)", percent=True),
    "results.changed": Printed("predictions that shuffling changes (%)", percent=True),
    "gains": By(
        "place",
        spoken=tuple(".".join(place) for place in itertools.product(TASKS, METHODS)),
        absent=NO_TASK,
    ),
    "gains.gain": Printed("gain from positions (percentage points)", percent=True),
    "bags_of_words": By("task", spoken=TASKS, absent=NO_TASK, name="{}.bag_of_words"),
    "bags_of_words.accuracy": Printed(percent=True),
    "bags_of_words.beside": By(
        "place",
        spoken=tuple(".".join(place) for place in itertools.product(POSITIONS, METHODS)),
        absent=NO_TASK,
    ),
    "bags_of_words.beside.gain": Printed(
        "accuracy, more than the bag of words (percentage points)", percent=True, name="more"
    ),
    "control": By("method", spoken=(*METHODS, "bag_of_words"), absent=NO_TASK, name="control.{}"),
    "control.accuracy": Printed(percent=True),
    "control.p_value": Printed("p-value against chance"),
    "shuffling": By("positions", spoken=POSITIONS, absent=NO_TASK, name="shuffled.{}"),
    "shuffling.mean": Printed(
        "how far shuffled words move the mean state, of its length (%)",
        percent=True,
        name="mean_change",
    ),
}
SENSITIVITIES = tuple(f"{place}.order_sensitivity" for place in PLACES)


def derived(result: Downstream) -> Facts:
    """How many seeds there are, and how sensitive to order classifiers are, or why not."""
    from posenc.experiments.downstream.result import Constant

    facts: Facts = {
        **dict.fromkeys(SENSITIVITIES, NotRun(NO_TASK)),
        "seeds": Number(len(result.seeds)),
    }
    for classifier in result.results:
        sensitivity = classifier.order_sensitivity
        facts[f"{classifier.place}.order_sensitivity"] = (
            NotRun(sensitivity.reason) if isinstance(sensitivity, Constant) else number(sensitivity)
        )
    return facts


QUANTITIES = quantities(
    __package__,
    "Downstream",
    PRINTED,
    derived,
    names=("seeds", *SENSITIVITIES),
    words={"order_sensitivity": "order sensitivity (1 − κ)"},
)
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
