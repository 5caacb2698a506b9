"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from posenc.artifacts.numbers import Entry, Facts, NotRun, Number, Quantities
from posenc.artifacts.printing import number
from posenc.artifacts.results import Interval
from posenc.tokens.coverage import Coverage

if TYPE_CHECKING:
    from posenc.measurements.conditions.result import (
        Category,
        EvaluatedConditions,
        LongDocuments,
        Mask,
    )

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
FEWEST_DOCUMENTS = 15
"""Documents of a category at least, for its mean to be reported."""
LEVEL = 0.05
LONG_COUNTS = ("trained", "documents")
ENDS = ("within", "beyond", "difference", "recovered_within", "recovered_beyond")
MASK = ("loss", "start", "intact", "slope", "parameters")


def condition_facts(measurement: Mapping[str, Any]) -> dict[str, Facts]:
    """The numbers of each condition of a measurement of evaluated conditions, by quantity."""
    from posenc.measurements.conditions.result import EvaluatedConditions

    result, model = EvaluatedConditions.of(measurement), measurement["run"]["model"]
    names = [evaluation.condition for evaluation in result.conditions]
    return {name: evaluated(result, model, name) for name in names}


def evaluated(result: EvaluatedConditions, model: str, condition: str) -> Facts:
    """The numbers of one condition; a reason where it is not for the model."""
    named = (own for own in result.conditions if own.condition == condition)
    if (evaluation := next(named, None)) is None:
        return dict.fromkeys(CONDITIONS, NotRun(f"{condition} is not for {model}"))
    scored, layers = result.scored_tokens, evaluation.layers
    counts: Facts = {
        "documents": Number(result.documents),
        "tokens": Number(result.tokens if scored is None else scored),
        "embedding.cosine": number(layers[0]),
        "last.cosine": number(layers[-1]),
    }
    if not result.is_decoder:
        return counts | dict.fromkeys(ESTIMATES, NotRun(f"{model} has no language-model head"))
    return counts | {
        key: estimate(getattr(evaluation, key), "nothing is lost without positions")
        for key in ESTIMATES
    }


def estimate(value: Interval | None, lacking: str) -> Entry:
    """An estimate, or why it is lacking."""
    return NotRun(lacking) if value is None else number(value)


def coverage_facts(result: EvaluatedConditions) -> Facts:
    """How many documents a model reads, how many of them are cut, and what share of the tokens."""
    coverage = Coverage(**result.coverage.as_json())
    values = (coverage.documents, coverage.cut, coverage.read, coverage.share)
    return {name: Number(value) for name, value in zip(COVERAGE, values, strict=True)}


def with_controls(result: EvaluatedConditions) -> list[str]:
    """Conditions of fitted masks that have controls."""
    return [own.condition for own in result.conditions if own.adaptation]


def adapted(result: EvaluatedConditions, model: str, condition: str) -> Facts:
    """How much of a fitted mask's gain is position; a reason where it has no controls."""
    for own in result.conditions:
        if own.condition == condition and own.adaptation:
            return {
                key: estimate(getattr(own.adaptation, key), "nothing is lost without positions")
                for key in ADAPTATION
            }
    return dict.fromkeys(ADAPTATION, NotRun(f"controls of {condition} are not run for {model}"))


def categories(result: EvaluatedConditions) -> Facts:
    """What documents lose without positions by category, and whether categories differ."""
    if (costs := result.categories) is None:
        has_loss = result.is_decoder
        lacking = "documents have no categories" if has_loss else "there is no language-model head"
        return dict.fromkeys(CATEGORIES, NotRun(lacking))
    large = [own for own in costs.categories if own.documents >= FEWEST_DOCUMENTS]
    large.sort(key=lambda category: category.delta_nll.value)
    no_closed = "the closed form is not evaluated, or nothing is lost"
    no_fit = "no fitted mask is evaluated with its controls, or nothing is lost"
    fit = next((name for name in FITS if costs.adaptation.get(name)), None)
    adaptation = costs.adaptation[fit] if fit else None
    facts: Facts = {
        "number": Number(len(costs.categories)),
        "delta_nll": number(costs.delta_nll[costs.condition]),
        "closed_form": estimate(costs.recovered.get("zero_closed"), no_closed),
        "spread": Number(math.sqrt(costs.variance)),
        "expected_spread": Number(math.sqrt(costs.expected)),
        "p_value": Number(costs.p_value),
        "different": Number(sum(category.p_value < LEVEL for category in costs.categories)),
        "compared": Number(len(large)),
    }
    facts["fitted"] = estimate(costs.recovered[fit] if fit else None, no_fit)
    for share in ("interaction_share", "beyond_placebo_share"):
        of_fit = getattr(adaptation, share) if adaptation else None
        facts[f"fitted_{share}"] = estimate(of_fit, no_fit)
    least, most = (large[0], large[-1]) if large else (None, None)
    return facts | category_facts("least", least) | category_facts("most", most)


def category_facts(name: str, category: Category | None) -> Facts:
    """The cost of a category, or why there is none."""
    if category is None:
        lacking = NotRun(f"no category has {FEWEST_DOCUMENTS} documents")
        return dict.fromkeys((name, f"{name}.documents", f"{name}.p_value"), lacking)
    return {
        name: number(category.delta_nll),
        f"{name}.documents": Number(category.documents),
        f"{name}.p_value": Number(category.p_value),
    }


def long_facts(result: LongDocuments, condition: str) -> Facts:
    """Loss of a condition in the last positions within the trained length, and in the last."""
    named = (own for own in result.conditions if own.condition == condition)
    if (evaluation := next(named, None)) is None:
        lacking = f"no condition {condition} on long documents in this study"
        return dict.fromkeys(ENDS, NotRun(lacking))
    buckets, longest = evaluation.buckets, result.trained_tokens + 1
    within = max(sum(bucket.to <= longest for bucket in buckets), 1) - 1  # the last trained one
    shares = evaluation.recovered or [None] * len(buckets)
    no_share = "nothing is lost without positions, or it is the loss of that model"
    no_other = "the study compares long documents with no condition"
    return {
        "within": number(buckets[within].nll_per_token),
        "beyond": number(buckets[-1].nll_per_token),
        "difference": estimate(evaluation.difference, no_other),
        "recovered_within": estimate(shares[within], no_share),
        "recovered_beyond": estimate(shares[-1], no_share),
    }


def long_counts(result: LongDocuments) -> Facts:
    """The trained length, and the number of long documents."""
    return {"trained": Number(result.trained_tokens), "documents": Number(result.documents)}


def mask_facts(mask: Mask) -> Facts:
    """What was learned: the loss on calibration text, and what the method chose or fitted."""
    facts: Facts = {}
    for key in MASK:
        value = getattr(mask, key)
        if value is None:
            facts[key] = NotRun(f"the mask {mask.mask} has no {key}")
        elif key == "slope":
            facts[key] = Number(value, decimals=len(f"{value:g}".partition(".")[2]))
        else:
            facts[key] = Number(value)
    return facts


def masks_facts(result: EvaluatedConditions, model: str, masks: Iterable[str]) -> Facts:
    """The same for masks by name; a reason for those that the model has not learned."""
    learned = {mask.mask: mask for mask in result.masks}
    facts: Facts = {}
    for name in masks:
        lacking = NotRun(f"no mask {name} of {model}")
        own = mask_facts(learned[name]) if name in learned else dict.fromkeys(MASK, lacking)
        facts |= {f"masks.{name}.{key}": entry for key, entry in own.items()}
    return facts


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
