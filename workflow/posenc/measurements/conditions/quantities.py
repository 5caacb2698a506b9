"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, Quantities
from posenc.tokens.coverage import Coverage

ESTIMATES = (
    "perplexity", "nll_per_token", "delta_nll", "delta_nll_without", "recovered",
    "recovered_perplexity", "bits_per_byte", "worse_than_uniform",
)  # fmt: skip
CONDITIONS = ("documents", "tokens", "embedding.cosine", "last.cosine", *ESTIMATES)
COVERAGE = ("documents", "cut", "tokens", "share")
"""Of a model and a data set: documents that are read and cut, and their tokens that are read."""
ADAPTATION = tuple(
    f"{what}{share}"
    for what in ("interaction", "placebo_interaction", "beyond_placebo")
    for share in ("", "_share")
)
CATEGORIES = (
    "number", "delta_nll", "closed_form", "fitted", "fitted_interaction_share",
    "fitted_beyond_placebo_share", "spread", "expected_spread", "p_value", "different", "compared",
    *(f"{name}{part}" for name in ("most", "least") for part in ("", ".documents", ".p_value")),
)  # fmt: skip
FITS = ("zero_scores_fitted", "zero_fitted")
"""Conditions of a fitted mask; the first that a model has is reported over categories."""
FIT_PARTS = {
    "fitted": "recovered",
    "fitted_interaction_share": "interaction_share",
    "fitted_beyond_placebo_share": "beyond_placebo_share",
}
FEWEST_DOCUMENTS = 15
"""Documents of a category at least, for its mean to be reported."""
LEVEL = 0.05
LONG_COUNTS = ("trained", "documents")
ENDS = ("within", "beyond", "difference", "recovered_within", "recovered_beyond")
MASK = ("loss", "start", "intact", "slope", "parameters")


def condition_facts(measurement: Mapping[str, Any]) -> dict[str, dict[str, Entry]]:
    """The numbers of each condition of a measurement of evaluated conditions, by quantity."""
    names = [entry["condition"] for entry in measurement["conditions"]]
    return {name: evaluated(measurement, name) for name in names}


def evaluated(measurement: Mapping[str, Any], condition: str) -> dict[str, Entry]:
    """The numbers of one condition; a reason where it is not for the model."""
    model = measurement["run"]["model"]
    rows = (row for row in measurement["conditions"] if row["condition"] == condition)
    if (entry := next(rows, None)) is None:
        return dict.fromkeys(CONDITIONS, NotRun(f"{condition} is not for {model}"))
    layers = [Number(layer["value"], layer["low"], layer["high"]) for layer in entry["layers"]]
    numbers: dict[str, Entry] = {
        "documents": Number(measurement["documents"]),
        "tokens": Number(tokens_of(measurement)),
        "embedding.cosine": layers[0],
        "last.cosine": layers[-1],
    }
    for key in ESTIMATES:
        if not measurement["is_decoder"]:
            numbers[key] = NotRun(f"{model} has no language-model head")
        elif entry[key] is None:
            numbers[key] = NotRun("nothing is lost without positions")
        else:
            numbers[key] = Number(**entry[key])
    return numbers


def coverage_facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """How many documents a model reads, how many of them are cut, and what share of the tokens."""
    coverage = Coverage(**measurement["coverage"])
    values = (coverage.documents, coverage.cut, coverage.read, coverage.share)
    return {name: Number(value) for name, value in zip(COVERAGE, values, strict=True)}


def with_controls(measurement: Mapping[str, Any]) -> list[str]:
    """Conditions of fitted masks that have controls."""
    return [entry["condition"] for entry in measurement["conditions"] if entry.get("adaptation")]


def adapted(measurement: Mapping[str, Any], condition: str) -> dict[str, Entry]:
    """How much of a fitted mask's gain is position; a reason where it has no controls."""
    model, none = measurement["run"]["model"], NotRun("nothing is lost without positions")
    for entry in measurement["conditions"]:
        if entry["condition"] == condition and entry.get("adaptation"):
            estimates = entry["adaptation"].items()
            return {key: Number(**estimate) if estimate else none for key, estimate in estimates}
    return dict.fromkeys(ADAPTATION, NotRun(f"controls of {condition} are not run for {model}"))


def categories(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What documents lose without positions by category, and whether categories differ."""
    by_category = measurement.get("categories")
    if by_category is None:
        has_loss = measurement["is_decoder"]
        lacking = "documents have no categories" if has_loss else "there is no language-model head"
        return dict.fromkeys(CATEGORIES, NotRun(lacking))
    rows = by_category["categories"]
    large = [row for row in rows if row["documents"] >= FEWEST_DOCUMENTS]
    numbers: dict[str, Entry] = {
        "number": Number(len(rows)),
        "delta_nll": Number(**by_category["delta_nll"][by_category["condition"]]),
        "closed_form": NotRun("the closed form is not evaluated, or nothing is lost"),
        "spread": Number(math.sqrt(by_category["variance"])),
        "expected_spread": Number(math.sqrt(by_category["expected"])),
        "p_value": Number(by_category["p_value"]),
        "different": Number(sum(row["p_value"] < LEVEL for row in rows)),
        "compared": Number(len(large)),
    }
    if shares := by_category["recovered"].get("zero_closed"):
        numbers["closed_form"] = Number(**shares)
    fit = next((name for name in FITS if by_category["adaptation"].get(name)), None)
    parts = (
        dict(by_category["adaptation"][fit], recovered=by_category["recovered"][fit]) if fit else {}
    )
    for key, part in FIT_PARTS.items():
        no_fit = NotRun("no fitted mask is evaluated with its controls, or nothing is lost")
        numbers[key] = Number(**parts[part]) if parts.get(part) else no_fit
    large.sort(key=lambda row: row["delta_nll"]["value"])
    none = NotRun(f"no category has {FEWEST_DOCUMENTS} documents")
    for name, place in (("least", 0), ("most", -1)):
        row = large[place] if large else None
        numbers[name] = Number(**row["delta_nll"]) if row else none
        for key in ("documents", "p_value"):
            numbers[f"{name}.{key}"] = Number(row[key]) if row else none
    return numbers


def long_facts(measurement: Mapping[str, Any], condition: str) -> dict[str, Entry]:
    """Loss of a condition in the last positions within the trained length, and in the last."""
    for entry in measurement["conditions"]:
        if entry["condition"] == condition:
            buckets, trained = entry["buckets"], measurement["trained_tokens"]
            ends = [bucket["to"] for bucket in buckets]
            last = max(sum(end <= trained + 1 for end in ends), 1) - 1  # within the trained length
            shares = entry["recovered"] or [None] * len(buckets)
            none = NotRun("nothing is lost without positions, or it is the loss of that model")
            return {
                "within": Number(**buckets[last]["nll_per_token"]),
                "beyond": Number(**buckets[-1]["nll_per_token"]),
                "difference": Number(**entry["difference"])
                if entry["difference"]
                else NotRun("the study compares long documents with no condition"),
                "recovered_within": Number(**shares[last]) if shares[last] else none,
                "recovered_beyond": Number(**shares[-1]) if shares[-1] else none,
            }
    return dict.fromkeys(ENDS, NotRun(f"no condition {condition} on long documents in this study"))


def long_counts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """The trained length, and the number of long documents."""
    keys = dict(zip(LONG_COUNTS, ("trained_tokens", "documents"), strict=True))
    return {name: Number(measurement[key]) for name, key in keys.items()}


def mask_facts(mask: Mapping[str, Any]) -> dict[str, Entry]:
    """What was learned: the loss on calibration text, and what the method chose or fitted."""
    numbers: dict[str, Entry] = {}
    for key in MASK:
        if key not in mask:
            numbers[key] = NotRun(f"the mask {mask['mask']} has no {key}")
        elif key == "slope":
            numbers[key] = Number(mask[key], decimals=len(f"{mask[key]:g}".partition(".")[2]))
        else:
            numbers[key] = Number(mask[key])
    return numbers


def masks_facts(measurement: Mapping[str, Any], masks: Iterable[str]) -> dict[str, Entry]:
    """The same for masks by name; a reason for those that the model has not learned."""
    learned = {mask["mask"]: mask for mask in measurement["masks"]}
    numbers: dict[str, Entry] = {}
    for name in masks:
        why = NotRun(f"no mask {name} of {measurement['run']['model']}")
        entries = mask_facts(learned[name]) if name in learned else dict.fromkeys(MASK, why)
        numbers |= {f"masks.{name}.{key}": entry for key, entry in entries.items()}
    return numbers


def tokens_of(measurement: Mapping[str, Any]) -> int:
    """Tokens whose losses a measurement has; all that it saw where it has none."""
    return measurement.get("scored_tokens", measurement["tokens"])


WORDS = {
    "loss": "loss with it on calibration text (nats per token)",
    "start": "loss without it on calibration text (nats per token)",
    "intact": "loss of the intact model on calibration text (nats per token)",
    "slope": "slope",
    "parameters": "parameters",
    "count": "number of decoders",
}
ENCODER_WORDS = {
    "loss": "1 − cosine of the last hidden states with the intact ones, with it, on calibration "
    "text",
    "start": "1 − cosine of the last hidden states with the intact ones, without it, on "
    "calibration text",
    "intact": "1 − cosine of the last hidden states with themselves, which is rounding alone",
}
"""The same of an encoder, whose masks are judged by another unit (capture/learning.py)."""
COVERAGE_WORDS = {
    "documents": "documents that the model reads",
    "cut": "how many of them are cut",
    "tokens": "tokens of them that are read",
    "share": "the same, as a share of all",
}
ADAPTATION_WORDS = {
    "interaction": "what a fit gives beyond what it gives the intact model",
    "interaction_share": "the same, as a share of what is lost",
    "placebo_interaction": "what a placebo's fit gives beyond what it gives the intact model",
    "placebo_interaction_share": "the same, as a share of what is lost",
    "beyond_placebo": "what a fit gives beyond its placebo",
    "beyond_placebo_share": "the same, as a share of what is lost",
}
CATEGORY_WORDS = {
    "number": "categories",
    "delta_nll": "cost of no positions, interval over categories too (nats per token)",
    "closed_form": "share of it that the closed form recovers, over categories too",
    "fitted": "share of it that a fitted mask recovers, over categories too",
    "fitted_interaction_share": "the same, less what the fit gives the intact model",
    "fitted_beyond_placebo_share": "the same, and less what a placebo's fit gives",
    "spread": "standard deviation of the cost over categories (nats per token)",
    "expected_spread": "the same when documents change their categories (nats per token)",
    "p_value": "p-value that categories do not differ",
    "different": "categories that differ from all, corrected for looking at all",
    "compared": "categories of 15 documents or more",
    "most": "cost of the one of these that loses most (nats per token)",
    "least": "cost of the one that loses least (nats per token)",
}
EXTRAPOLATION_WORDS = {
    "within": "loss at the end of the trained length (nats per token)",
    "beyond": "loss at the end of long documents (nats per token)",
    "difference": "the same, more than of what it is compared with (nats per token)",
    "recovered_within": "recovered at the end of the trained length (a share)",
    "recovered_beyond": "recovered at the end of long documents (a share)",
    "trained": "trained length (tokens)",
    "positions": "positions",
}
QUANTITIES = Quantities(
    names=CONDITIONS,
    words=WORDS,
    also={
        "masks_of_encoders": {**WORDS, **ENCODER_WORDS},
        "coverage": COVERAGE_WORDS,
        "adaptation": ADAPTATION_WORDS,
        "categories": CATEGORY_WORDS,
        "extrapolation": EXTRAPOLATION_WORDS,
    },
)
