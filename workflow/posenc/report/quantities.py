"""What a study has of numbers, measurement by measurement, and how they are written."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posenc.conditions.positions import ROTATION, TABLE
from posenc.report.records import Entry, NotRun, Number
from posenc.tokens.coverage import Coverage

INTACT = "intact"
HEADLINE_CONDITIONS = (INTACT, "zero")
"""The documents speak of these, also when a study lacks one."""
SPOKEN_CONDITIONS = (
    *HEADLINE_CONDITIONS,
    "mean",
    "keep_first_mean",
    "shuffle",
    "shift_1",
    "unit_norm",
    "zero_hf_finfo",
    "single_token",
    "zero_log_mask",
    "zero_prob_mul",
    "zero_slope",
    "zero_distilled",
    "mean_distilled",
    "fitted_vectors",
    "fitted",
    "bands_high_16",
    "zero_alibi",
    "zero_closed",
    "zero_closed_one_0",
    "placebo_heads",
    "placebo_layers",
    "placebo_mean",
    "zero_scores",
    "first_order",
    "first_order_heads",
)
"""The same, of the conditions that are evaluated."""
SPOKEN_FITS = ("zero_fitted", "fitted")
"""The same, of conditions of fitted masks that have controls."""
SPOKEN_LONG = ("fitted", "intact", "mean_slope")
"""The same, of those that are evaluated beyond the trained length."""
SPOKEN_MASKS = ("fitted", "slope_zero")
"""The same, of learned masks."""
SPOKEN_MATRICES = ("sinusoid", "gaussian")
"""The same, of tables of position embeddings that are no model's."""

ESTIMATES = {
    "similarity": (
        "cosine", "baseline", "rescaled", "same_document", "rescaled_same_document", "same_token",
        "rescaled_same_token", "centred", "standardised", "retrieval",
    ),
    "perplexity": (
        "perplexity", "bits_per_byte", "nll_per_token", "worse_than_uniform", "delta_nll",
        "perplexity_ratio",
    ),
    "conditions": (
        "perplexity", "nll_per_token", "delta_nll", "delta_nll_without", "recovered",
        "recovered_perplexity", "bits_per_byte", "worse_than_uniform",
    ),
}  # fmt: skip
COUNTS = {
    "similarity": ("documents", "tokens", "d_model", "sample_tokens"),
    "perplexity": ("documents", "tokens", "bytes", "vocabulary_size"),
}
TRAINING = (
    "parameters", "steps", "tokens_seen", "training_documents", "validation_documents",
    "final_training_loss", "final_validation_loss", "best_validation_loss",
)  # fmt: skip
QUANTITIES = {
    "similarity": (
        *COUNTS["similarity"],
        "same_token_share",
        "gaussian.sd",
        *(
            f"{layer}.{quantity}"
            for layer in ("embedding", "last")
            for quantity in (*ESTIMATES["similarity"], "token_sd", "cka")
        ),
    ),
    "perplexity": (
        *COUNTS["perplexity"],
        *ESTIMATES["perplexity"],
        "sequence.mean",
        "sequence.median",
    ),
    "conditions": (
        "documents",
        "tokens",
        "embedding.cosine",
        "last.cosine",
        *ESTIMATES["conditions"],
    ),
}
COVERAGE = ("documents", "cut", "tokens", "share")
"""Of a model and a data set: documents that are read and cut, and the tokens of them that are."""
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
"""Conditions of a fitted mask; the first that a model has is told over categories."""
FIT_PARTS = {
    "fitted": "recovered",
    "fitted_interaction_share": "interaction_share",
    "fitted_beyond_placebo_share": "beyond_placebo_share",
}
FEWEST_DOCUMENTS = 15
"""Of a category, so that documents speak of its mean."""
LEVEL = 0.05
NORMS = tuple(
    f"r2.{of}.{model}"
    for of in ("position_embeddings", "token_embeddings", "sum")
    for model in ("linear", "flexible")
)
LEVELS = ("uniform", "unigram", "bigram", "trigram")
REFERENCE = tuple(f"{level}.{key}" for level in LEVELS for key in ("perplexity", "bits_per_byte"))
LONG_COUNTS = ("trained", "documents")
ENDS = ("within", "beyond", "difference", "recovered_within", "recovered_beyond")
MASK = ("loss", "start", "intact", "slope", "parameters")
OVER_DECODERS = ("mean", "sd", "least")
"""What a run has by measurement, whether it was run or not; measured runs have all layers."""


def decimals_of(number: Number) -> int:
    """How many decimals of a number mean something.

    Two significant digits of half its interval's width, but at least three and at most six of
    the number itself; four of a number without interval. Counts are whole. Negative for tens and
    hundreds.
    """
    if number.decimals is not None:
        return number.decimals
    if isinstance(number.value, int):
        return 0
    size = math.floor(math.log10(abs(number.value))) if number.value else 0
    half = (number.high - number.low) / 2 if number.low is not None else 0.0
    if half <= 0:
        return 3 - size
    decimals = 1 - math.floor(math.log10(half))
    # A difference near zero has an interval wider than itself: the interval decides.
    size = max(size, math.floor(math.log10(half)))
    return min(max(decimals, 2 - size), 5 - size)


def decimals_in_text(number: Number) -> int:
    """As :func:`decimals_of`, but at most three digits of a number without an interval."""
    decimals = decimals_of(number)
    is_precise = number.low is not None or number.decimals is not None
    return decimals if is_precise or decimals <= 0 else decimals - 1


def written(value: float, decimals: int) -> str:
    """A number in digits that siunitx reads; very large and very small ones with an exponent."""
    size = math.floor(math.log10(abs(value))) if value else 0
    if not isinstance(value, int) and (size >= 7 or (size < -5 and decimals > 6)):
        return f"{value:.{min(5, max(1, decimals + size))}e}"
    text = f"{round(value, decimals):.{max(0, decimals)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of a measured similarity or perplexity, by quantity."""
    kind = measurement["measurement"]
    found: dict[str, Entry] = {key: Number(measurement[key]) for key in COUNTS[kind]}
    if kind == "similarity":
        share = measurement["same_token_share"]
        alike = "tokens of one id are all alike" if share else "no token is in two documents"
        none = dict.fromkeys(("same_token", "rescaled_same_token"), alike)
        found["same_token_share"] = Number(share)
        found["gaussian.sd"] = Number(measurement["gaussian_null"]["sd"])
        for layer in measurement["layers"]:
            name = layer["name"].replace(" ", "_")
            for key in ("token_sd", "cka"):
                found[f"{name}.{key}"] = Number(layer[key])
            for key in ESTIMATES[kind]:
                found[f"{name}.{key}"] = (
                    Number(**layer[key])
                    if layer[key]
                    else NotRun(none.get(key, "no document has two different tokens"))
                )
    else:
        for key in ESTIMATES[kind]:
            found[key] = Number(**measurement[key])
        for key, value in measurement["sequence_perplexity"].items():
            found[f"sequence.{key}"] = Number(value)
    return found


def tokens_of(measurement: Mapping[str, Any]) -> int:
    """Tokens that a measurement's losses are of; all that it saw where it has none."""
    return measurement.get("scored_tokens", measurement["tokens"])


def condition_facts(measurement: Mapping[str, Any]) -> dict[str, dict[str, Entry]]:
    """The numbers of each condition of a measurement of evaluated conditions, by quantity."""
    names = [entry["condition"] for entry in measurement["conditions"]]
    return {name: evaluated(measurement, name) for name in names}


def evaluated(measurement: Mapping[str, Any], condition: str) -> dict[str, Entry]:
    """Those of one condition; a reason where it is not for the model."""
    model = measurement["run"]["model"]
    found = (one for one in measurement["conditions"] if one["condition"] == condition)
    if (entry := next(found, None)) is None:
        return dict.fromkeys(QUANTITIES["conditions"], NotRun(f"{condition} is not for {model}"))
    layers = [Number(layer["value"], layer["low"], layer["high"]) for layer in entry["layers"]]
    here: dict[str, Entry] = {
        "documents": Number(measurement["documents"]),
        "tokens": Number(tokens_of(measurement)),
        "embedding.cosine": layers[0],
        "last.cosine": layers[-1],
    }
    for key in ESTIMATES["conditions"]:
        if not measurement["is_decoder"]:
            here[key] = NotRun(f"{model} has no language-model head")
        elif entry[key] is None:
            here[key] = NotRun("nothing is lost without positions")
        else:
            here[key] = Number(**entry[key])
    return here


def coverage_facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """How many documents a model reads, how many of them are cut, and what share of the tokens."""
    coverage = Coverage(**measurement["coverage"])
    values = (coverage.documents, coverage.cut, coverage.read, coverage.share)
    return {name: Number(value) for name, value in zip(COVERAGE, values, strict=True)}


def with_controls(measurement: Mapping[str, Any]) -> list[str]:
    """Conditions of fitted masks that have controls."""
    return [one["condition"] for one in measurement["conditions"] if one.get("adaptation")]


def adapted(measurement: Mapping[str, Any], condition: str) -> dict[str, Entry]:
    """What of a fitted mask's gain is position; a reason where it has no controls."""
    model, none = measurement["run"]["model"], NotRun("nothing is lost without positions")
    for entry in measurement["conditions"]:
        if entry["condition"] == condition and entry.get("adaptation"):
            found = entry["adaptation"].items()
            return {key: Number(**estimate) if estimate else none for key, estimate in found}
    return dict.fromkeys(ADAPTATION, NotRun(f"controls of {condition} are not run for {model}"))


def categories(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What documents lose without positions by category, and whether categories differ."""
    found = measurement.get("categories")
    if found is None:
        has_loss = measurement["is_decoder"]
        lacking = "documents have no categories" if has_loss else "there is no language-model head"
        return dict.fromkeys(CATEGORIES, NotRun(lacking))
    rows = found["categories"]
    large = [one for one in rows if one["documents"] >= FEWEST_DOCUMENTS]
    here: dict[str, Entry] = {
        "number": Number(len(rows)),
        "delta_nll": Number(**found["delta_nll"][found["condition"]]),
        "closed_form": NotRun("the closed form is not evaluated, or nothing is lost"),
        "spread": Number(math.sqrt(found["variance"])),
        "expected_spread": Number(math.sqrt(found["expected"])),
        "p_value": Number(found["p_value"]),
        "different": Number(sum(one["p_value"] < LEVEL for one in rows)),
        "compared": Number(len(large)),
    }
    if shares := found["recovered"].get("zero_closed"):
        here["closed_form"] = Number(**shares)
    fit = next((name for name in FITS if found["adaptation"].get(name)), None)
    parts = dict(found["adaptation"][fit], recovered=found["recovered"][fit]) if fit else {}
    for key, part in FIT_PARTS.items():
        no_fit = NotRun("no fitted mask is evaluated with its controls, or nothing is lost")
        here[key] = Number(**parts[part]) if parts.get(part) else no_fit
    large.sort(key=lambda one: one["delta_nll"]["value"])
    none = NotRun(f"no category has {FEWEST_DOCUMENTS} documents")
    for name, place in (("least", 0), ("most", -1)):
        one = large[place] if large else None
        here[name] = Number(**one["delta_nll"]) if one else none
        for key in ("documents", "p_value"):
            here[f"{name}.{key}"] = Number(one[key]) if one else none
    return here


def norm_facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of a measurement of norms."""
    return {
        f"r2.{of}.{model}": Number(value)
        for of, models in measurement["r2"].items()
        for model, value in models.items()
    }


def reference_facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of reference levels, by the last word of their names."""
    reason = measurement["reason"] or "not among the reference levels of this study"
    found: dict[str, Entry] = dict.fromkeys(REFERENCE, NotRun(reason))
    for level in measurement["levels"]:
        for key in ("perplexity", "bits_per_byte"):
            found[f"{level['level'].split()[-1]}.{key}"] = Number(**level[key])
    return found


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
    """What is long, and how much there is of it."""
    keys = dict(zip(LONG_COUNTS, ("trained_tokens", "documents"), strict=True))
    return {name: Number(measurement[key]) for name, key in keys.items()}


def mask_facts(mask: Mapping[str, Any]) -> dict[str, Entry]:
    """What was learned: the loss on calibration text, and what the method chose or fitted."""
    found: dict[str, Entry] = {}
    for key in MASK:
        if key not in mask:
            found[key] = NotRun(f"the mask {mask['mask']} has no {key}")
        elif key == "slope":
            found[key] = Number(mask[key], decimals=len(f"{mask[key]:g}".partition(".")[2]))
        else:
            found[key] = Number(mask[key])
    return found


def masks_facts(measurement: Mapping[str, Any], masks: Iterable[str]) -> dict[str, Entry]:
    """The same of masks by name; those that the model has not learned have a reason."""
    learned = {mask["mask"]: mask for mask in measurement["masks"]}
    found: dict[str, Entry] = {}
    for name in masks:
        why = NotRun(f"no mask {name} of {measurement['run']['model']}")
        entries = mask_facts(learned[name]) if name in learned else dict.fromkeys(MASK, why)
        found |= {f"masks.{name}.{key}": entry for key, entry in entries.items()}
    return found


def training_facts(training: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of a training's summary."""
    return {key: Number(training[key]) for key in TRAINING}


def spread(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Mean, standard deviation (of n - 1) and least of the numbers among entries."""
    values = [entry.value for entry in entries if isinstance(entry, Number)]
    found: dict[str, Entry] = dict.fromkeys(OVER_DECODERS, NotRun("no decoder has this number"))
    if values:
        found["mean"], found["least"] = Number(statistics.fmean(values)), Number(min(values))
        found["sd"] = NotRun("one decoder in this study")
    if len(values) > 1:
        found["sd"] = Number(statistics.stdev(values))
    return found


def model_roles(study: Mapping[str, Any]) -> dict[str, str | None]:
    """The first encoder, decoder and rotary decoder of a study; None where it has none."""
    models = [(name, study["models"][name]) for name in study["study"]["models"]]
    kinds = {
        "encoder": [name for name, one in models if not one["is_decoder"]],
        "decoder": [name for name, one in models if one["is_decoder"]],
        "rotary_decoder": [name for name, one in models if one["positions"] == ROTATION],
    }
    return {role: names[0] if names else None for role, names in kinds.items()}


def no(role: str) -> str:
    """Why there is nothing of a role that a study lacks."""
    return f"no {role.replace('_', ' ')} in this study"


def decoders(study: Mapping[str, Any]) -> list[str]:
    """Decoders with a table of positions.

    What masks recover of a rotation is another question, and has a figure of its own.
    """
    models = study["models"]
    return [
        name
        for name in study["study"]["models"]
        if models[name]["is_decoder"] and models[name]["positions"] == TABLE
    ]


def seeds(study: Mapping[str, Any]) -> list[str]:
    """The first of the :func:`decoders`, and those that differ from it in their seed alone."""
    found = decoders(study)
    sources = [{**study["models"][name]["source"], "seed": None} for name in found]
    return [name for name, one in zip(found, sources, strict=True) if one == sources[0]]


def weights_of(study: Mapping[str, Any], model: str) -> str:
    """What published values call a model's weights, or a table of positions, by; or nothing."""
    if model in study["matrices"]:
        return f"matrix.{model}"
    source = study["models"].get(model, {"source": {"kind": None}})["source"]
    return source["id"] if source["kind"] == "hub" else ""


def dataset_roles(study: Mapping[str, Any]) -> dict[str, str | None]:
    """The first data set of each format of a study; None where it has none."""
    datasets = [(name, study["datasets"][name]["format"]) for name in study["study"]["datasets"]]
    return {
        role: next((name for name, form in datasets if form == wanted), None)
        for role, wanted in (("reviews", "imdb"), ("questions", "truthfulqa"))
    }


def missing_roles(study: Mapping[str, Any]) -> list[str]:
    """Why a study lacks what the documents speak of, one reason each."""
    roles = {**model_roles(study), **dataset_roles(study)}
    reasons = [no(role) for role, name in roles.items() if name is None]
    for condition in HEADLINE_CONDITIONS:
        if condition not in study["study"]["conditions"]:
            reasons.append(f"no condition {condition} in this study")
    lacking = [name for name in SPOKEN_CONDITIONS[2:] if name not in study["conditions"]]
    if lacking:
        reasons.append(f"no conditions {', '.join(lacking)} in this study")
    return reasons


RUNS = {kind: (facts, QUANTITIES[kind]) for kind in ("perplexity", "similarity")}
CELLS = {"norms": (norm_facts, NORMS), "reference": (reference_facts, REFERENCE)}
"""By measurement: how its numbers are read, and the names of those that it has without a run."""
