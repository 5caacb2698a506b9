"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import NOT_EVALUATED, Entry, Number, Quantities, estimate, with_spoken

OTHER = "other"
"""The intact model after the beginning of another document, beside conditions."""
PAIRED = ("intact", "zero", "zero_closed", "placebo_heads")
"""Conditions whose pairs of words documents report."""
MASSES = ("mass_first", "mass")
OF_PAIRS = (
    "repeats", "dependence", "order", "places", "interaction", "divergence", "log_ratio",
    "additive", "agreement", "correlation", "interaction_correlation", "words_lost", "order_lost",
    "recovered",
)  # fmt: skip
JOINT_ORDER = (
    "documents", "candidates",
    *(f"{condition}.{part}"
      for condition in (*PAIRED, OTHER)
      for part in (*MASSES, *(f"{where}{name}" for where in ("", "far.") for name in OF_PAIRS))
      if condition != OTHER or not part.endswith("recovered")),
)  # fmt: skip


def joint_order(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Order of pairs of neighbours and of pairs with a token between them, by condition.

    ``other`` is the intact model after the beginning of another document.
    """
    entries = {entry["condition"]: entry for entry in measurement["conditions"]} | {
        OTHER: measurement["other"]
    }
    numbers: dict[str, Entry] = {
        part: Number(measurement[part]) for part in ("documents", "candidates")
    }
    for condition in with_spoken(PAIRED, entries):
        entry = entries.get(condition, {"distances": []})
        reason = "nothing of the order is lost" if condition in entries else NOT_EVALUATED
        numbers |= {f"{condition}.{part}": estimate(entry.get(part), reason) for part in MASSES}
        by_distance = {pairs["distance"]: pairs for pairs in entry["distances"]}
        for where, distance in (("", 1), ("far.", 2)):
            pairs = by_distance.get(distance, {})
            for part in OF_PAIRS:
                if condition != OTHER or part != "recovered":
                    numbers[f"{condition}.{where}{part}"] = estimate(pairs.get(part), reason)
    return numbers


WORDS = {
    "documents": "documents",
    "candidates": "words at either place",
    "far": "with a token between",
    "other": "the intact model after another document",
    "mass_first": "probability of those words at the first place",
    "mass": "probability of their pairs",
    "repeats": "probability that both are the same word",
    "dependence": "mutual information of the two places (nats)",
    "order": "total variation of pairs from their reverse",
    "places": "the same of the product of the places' marginals",
    "interaction": "the same of the rest",
    "divergence": "Jensen-Shannon divergence of pairs from their reverse (nats)",
    "log_ratio": "mean absolute log ratio of both orders (nats)",
    "additive": "share of its square that scores of single words explain",
    "agreement": "share of the intact model's pairs with the same preferred order",
    "correlation": "correlation of log ratios with the intact model's",
    "interaction_correlation": "the same without what marginals explain",
    "words_lost": "divergence from the intact model in which two words (nats)",
    "order_lost": "divergence from the intact model in their order (nats)",
    "recovered": "recovered share of the order that is lost",
}
QUANTITIES = Quantities(read=joint_order, names=JOINT_ORDER, words=WORDS)
