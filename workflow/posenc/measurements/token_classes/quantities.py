"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import NOT_EVALUATED, Facts, NotRun, with_spoken
from posenc.artifacts.printing import By, Fields, Printed, number, quantities
from posenc.drawing.exhibit import PAPER, Exhibit

if TYPE_CHECKING:
    from posenc.measurements.token_classes.result import Costs

PAYING = ("zero", "zero_closed", "placebo_heads", "zero_fitted")
"""Conditions whose costs by class are spoken of."""
CLASSES = {
    "punctuation": ("word", "punctuation"), "function": ("word", "function word"),
    "content": ("word", "content word"), "continuation": ("word", "continuation of a word"),
    "never": ("seen before", "never"), "just_now": ("seen before", "1 to 4 tokens ago"),
    "lately": ("seen before", "5 to 16"), "before": ("seen before", "17 to 64"),
    "long_ago": ("seen before", "65 or more"),
    "sentence_first": ("in its sentence", "first"), "sentence_later": ("in its sentence", "later"),
    "document_first": ("in its document", "1 to 15"),
    "document_later": ("in its document", "64 to 255"),
    "expected": ("trigram's surprisal", "lowest quarter"),
    "surprising": ("trigram's surprisal", "highest quarter"),
}  # fmt: skip
"""By the last part but one of a key: factor and class."""
OF_CLASSES = ("mean", "adjusted", "share")
PRINTED: Fields = {
    "documents": Printed("documents"),
    "tokens": Printed("tokens that are predicted"),
    "conditions": By("condition", spoken=PAYING),
    "conditions.delta_nll": Printed("loss, minus the intact model's (nats per token)"),
    "conditions.explained": Printed("share of its variance within documents that classes explain"),
    "conditions.permuted": Printed("the same of classes permuted within documents"),
}
FEW = Printed(absent="too few documents have such a token, or nothing is lost")


def by_class(result: Costs) -> Facts:
    """Costs by class of token and condition."""
    by_condition = {
        cost.condition: {
            (factor.factor, token_class.name): token_class
            for factor in cost.factors
            for token_class in factor.classes
        }
        for cost in result.conditions
    }
    facts: Facts = {}
    for condition in with_spoken(PAYING, by_condition):
        for name, place in CLASSES.items():
            for part in OF_CLASSES:
                facts[f"{condition}.{name}.{part}"] = (
                    number(getattr(by_condition[condition][place], part), FEW)
                    if condition in by_condition
                    else NotRun(NOT_EVALUATED)
                )
    return facts


WORDS = {
    "mean": "mean (nats per token)",
    "adjusted": "the same, adjusted for the other classes and the document",
    "share": "share of the whole cost",
    "punctuation": "cost of punctuation",
    "function": "of function words",
    "content": "of content words",
    "continuation": "of continuations of a word",
    "never": "of tokens never seen before",
    "just_now": "of those seen 1 to 4 tokens ago",
    "lately": "of those seen 5 to 16 tokens ago",
    "before": "of those seen 17 to 64 tokens ago",
    "long_ago": "of those seen 65 or more tokens ago",
    "sentence_first": "of the first token of a sentence",
    "sentence_later": "of those from the 13th of a sentence on",
    "document_first": "of the tokens 1 to 15 of a document",
    "document_later": "of the tokens 64 to 255 of a document",
    "expected": "of tokens that a trigram expects most",
    "surprising": "of tokens that a trigram expects least",
}
NAMES = tuple(
    f"{condition}.{name}.{part}" for condition in PAYING for name in CLASSES for part in OF_CLASSES
)
QUANTITIES = quantities(__package__, "Costs", PRINTED, by_class, NAMES, WORDS)
FIGURE = Exhibit(
    "A1 and F1: which tokens pay without positions",
    ("token_classes",),
    (PAPER,),
    height=5.2,
    caption="What it costs to take positions away, by class of token: mean over the tokens of "
    "a class, and adjusted for the other classes by a linear model of all classes at once, with "
    "differences between documents removed.",
    alt="Points with intervals, a panel for each model and data set: cost in nats per token "
    "by word class, last occurrence, place in sentence and document, and surprisal.",
)
