"""Every number that a document may print, by key, and how it is written.

A key is ``MODEL.DATASET.CONDITION.MEASUREMENT.QUANTITY``. The first model of each kind and the
first data set of each format have a role's name too (``encoder``, ``decoder``; ``reviews``,
``questions``), so that the text of a document fits every study. A role's name takes precedence
over a model or data set that happens to be called the same. What does not belong to a condition
leaves it out (``MODEL.DATASET.reference.bigram.perplexity``), or the data set too
(``MODEL.masks.MASK.loss``, ``MODEL.long.CONDITION.beyond``); ``decoders`` are all of a study.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posenc.report import (
    experiment_quantities as experiment_numbers,
)
from posenc.report import (
    position_quantities as position_numbers,
)
from posenc.report.records import Entry, NotRun, Number

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
    "mean_distilled_pairs",
    "fitted_vectors",
    "fitted",
)
"""The same, of the conditions that are evaluated."""
SPOKEN_LONG = ("fitted", "intact", "mean_slope")
"""The same, of those that are evaluated beyond the trained length."""
SPOKEN_MASKS = (
    "fitted",
    "slope_zero",
)
"""The same, of learned masks."""

ESTIMATES = {
    "similarity": (
        "cosine", "baseline", "rescaled", "centred", "standardised", "retrieval",
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
    "conditions": ("embedding.cosine", "last.cosine", *ESTIMATES["conditions"]),
}
NORMS = tuple(
    f"r2.{of}.{model}"
    for of in ("position_embeddings", "token_embeddings", "sum")
    for model in ("linear", "flexible")
)
LEVELS = ("uniform", "unigram", "bigram", "trigram")
REFERENCE = tuple(f"{level}.{key}" for level in LEVELS for key in ("perplexity", "bits_per_byte"))
LONG = ("within", "beyond")
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


def written(value: float, decimals: int) -> str:
    """A number in digits that siunitx reads; very large and very small ones with an exponent."""
    size = math.floor(math.log10(abs(value))) if value else 0
    if not isinstance(value, int) and (size >= 7 or (size < -5 and decimals > 6)):
        return f"{value:.{min(5, max(1, decimals + size))}e}"
    text = f"{round(value, decimals):.{max(0, decimals)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def facts(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of a measurement, by quantity."""
    kind = measurement["measurement"]
    if measurement["status"] != "measured":
        return {key: NotRun(measurement["reason"]) for key in QUANTITIES[kind]}
    found: dict[str, Entry] = {key: Number(measurement[key]) for key in COUNTS[kind]}
    if kind == "similarity":
        found["gaussian.sd"] = Number(measurement["gaussian_null"]["sd"])
        for layer in measurement["layers"]:
            name = layer["name"].replace(" ", "_")
            for key in ("token_sd", "cka"):
                found[f"{name}.{key}"] = Number(layer[key])
            for key in ESTIMATES[kind]:
                found[f"{name}.{key}"] = Number(**layer[key])
    else:
        for key in ESTIMATES[kind]:
            found[key] = Number(**measurement[key])
        for key, value in measurement["sequence_perplexity"].items():
            found[f"sequence.{key}"] = Number(value)
    return found


def condition_facts(measurement: Mapping[str, Any]) -> dict[str, dict[str, Entry]]:
    """The numbers of each condition of a measurement of evaluated conditions, by quantity."""
    model = measurement["run"]["model"]
    found: dict[str, dict[str, Entry]] = {}
    for entry in measurement["conditions"]:
        layers = [Number(layer["value"], layer["low"], layer["high"]) for layer in entry["layers"]]
        here: dict[str, Entry] = {"embedding.cosine": layers[0], "last.cosine": layers[-1]}
        for key in ESTIMATES["conditions"]:
            if not measurement["is_decoder"]:
                here[key] = NotRun(f"{model} has no language-model head")
            elif entry[key] is None:
                here[key] = NotRun("nothing is lost without positions")
            else:
                here[key] = Number(**entry[key])
        found[entry["condition"]] = here
    return found


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


def long_facts(measurement: Mapping[str, Any]) -> dict[str, dict[str, Entry]]:
    """Loss of each condition in the last positions within the trained length, and in the last."""
    trained, found = measurement["trained_tokens"], {}
    for entry in measurement["conditions"]:
        buckets = entry["buckets"]
        within = [bucket for bucket in buckets if bucket["to"] <= trained + 1] or buckets[:1]
        found[entry["condition"]] = {
            "within": Number(**within[-1]["nll_per_token"]),
            "beyond": Number(**buckets[-1]["nll_per_token"]),
        }
    return found


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


def model_roles(study: Mapping[str, Any]) -> dict[str, str | None]:
    """The first encoder and the first decoder of a study; None where it has none."""
    models = [(name, study["models"][name]["is_decoder"]) for name in study["study"]["models"]]
    return {
        role: next((name for name, is_decoder in models if is_decoder == wanted), None)
        for role, wanted in (("encoder", False), ("decoder", True))
    }


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
    reasons = [f"no {role} in this study" for role, name in roles.items() if name is None]
    for condition in HEADLINE_CONDITIONS:
        if condition not in study["study"]["conditions"]:
            reasons.append(f"no condition {condition} in this study")
    lacking = [name for name in SPOKEN_CONDITIONS[2:] if name not in study["conditions"]]
    if lacking:
        reasons.append(f"no conditions {', '.join(lacking)} in this study")
    return reasons


def _places(study: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str | None]]:
    """Names in keys and the model or data set that each stands for; roles come last."""
    yield from ((name, name) for name in study["study"][kind])
    yield from (model_roles if kind == "models" else dataset_roles)(study).items()


def collect(
    study: Mapping[str, Any], measurements: Sequence[Mapping], trainings: Sequence[Mapping]
) -> dict[str, Entry]:
    """All numbers of a study by key.

    Parameters
    ----------
    study : mapping
        What data/config/study.json holds.
    measurements : sequence of mapping
        Its measurements.
    trainings : sequence of mapping
        Summaries of the models that it trains.

    Returns
    -------
    dict
        Runs that a document may speak of but that the study lacks are ``NotRun``. A measurement
        that the study should have and that is not there leaves no key.
    """
    measured = study["measured"]
    numbers: dict[str, Entry] = {"constant.zero": Number(0), "constant.one": Number(1)}
    numbers |= _of_runs(study, measurements)
    numbers |= _of_conditions(study, measurements)
    numbers |= _over_decoders(study, numbers)
    numbers |= _of_datasets(study, measurements)
    numbers |= _of_models(study, measurements)
    numbers |= position_numbers.collect(
        study,
        measurements,
        cells=_cells(study),
        models=_places(study, "models"),
        datasets=_places(study, "datasets"),
        conditions=list(dict.fromkeys([*study["study"]["conditions"], *HEADLINE_CONDITIONS])),
        of_runs=_only(measured, {**position_numbers.OF_RUNS, **experiment_numbers.OF_RUNS}),
        of_models=_only(measured, {**position_numbers.OF_MODELS, **experiment_numbers.OF_MODELS}),
    )
    reviews = dataset_roles(study)["reviews"]
    numbers |= experiment_numbers.collect(study, measurements, reviews)
    by_model = {training["model"]: training for training in trainings}
    for model_key, model in _places(study, "models"):
        for key in TRAINING:
            if model in by_model:
                entry: Entry = Number(by_model[model][key])
            elif model is None:
                entry = NotRun(f"no {model_key} in this study")
            else:
                entry = NotRun(f"{model} is not trained here")
            numbers[f"{model_key}.training.{key}"] = entry
    return numbers


def _only(measured: Sequence[str], of: Mapping[str, Any]) -> dict[str, Any]:
    """What a study measures of all that could be measured."""
    return {kind: value for kind, value in of.items() if kind in measured}


def _cells(study: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    """``MODEL.DATASET`` of a key, the model, the data set, and why there is none."""
    for model_key, model in _places(study, "models"):
        for dataset_key, dataset in _places(study, "datasets"):
            reason = f"no {dataset_key} in this study" if dataset is None else None
            if model is None:
                reason = f"no {model_key} in this study"
            yield f"{model_key}.{dataset_key}", model, dataset, reason


def _of_runs(study: Mapping[str, Any], measurements: Sequence[Mapping]) -> dict[str, Entry]:
    """Numbers of the runs whose activations are kept."""
    by_run: dict[tuple, dict[str, Entry]] = {}
    for measurement in measurements:
        kind = measurement["measurement"]
        if kind in COUNTS:
            run = tuple(measurement["run"][part] for part in ("model", "dataset", "condition"))
            for key, entry in facts(measurement).items():
                by_run.setdefault(run, {})[f"{kind}.{key}"] = entry
    empty = [f"{kind}.{key}" for kind in COUNTS for key in QUANTITIES[kind]]
    conditions, numbers = study["study"]["conditions"], {}
    for cell, model, dataset, reason in _cells(study):
        for condition in dict.fromkeys([*conditions, *HEADLINE_CONDITIONS]):
            why = reason
            if why is None and condition not in conditions:
                why = f"no condition {condition} in this study"
            found = by_run.get((model, dataset, condition), {})
            for key, entry in (dict.fromkeys(empty, NotRun(why)) if why else found).items():
                numbers[f"{cell}.{condition}.{key}"] = entry
    return numbers


def _of_conditions(study: Mapping[str, Any], measurements: Sequence[Mapping]) -> dict[str, Entry]:
    """Numbers of all conditions that are evaluated."""
    by_cell = {
        (one["run"]["model"], one["run"]["dataset"]): condition_facts(one)
        for one in measurements
        if one["measurement"] == "conditions"
    }
    conditions, numbers = study["conditions"], {}
    for cell, model, dataset, reason in _cells(study):
        found = by_cell.get((model, dataset))
        for condition in dict.fromkeys([*conditions, *SPOKEN_CONDITIONS]):
            why = reason
            if why is None and condition not in conditions:
                why = f"no condition {condition} in this study"
            elif why is None and found is not None and condition not in found:
                why = f"{condition} is not for {model}"
            entries = (found or {}).get(condition, {})
            if why is not None:
                entries = dict.fromkeys(QUANTITIES["conditions"], NotRun(why))
            for key, entry in entries.items():
                numbers[f"{cell}.{condition}.conditions.{key}"] = entry
    return numbers


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


def _over_decoders(study: Mapping[str, Any], numbers: Mapping[str, Entry]) -> dict[str, Entry]:
    """What the decoders of a study, which may be seeds of one training, have in common."""
    names = [name for name in study["study"]["models"] if study["models"][name]["is_decoder"]]
    made: dict[str, Entry] = {"decoders.count": Number(len(names))}
    for dataset, _ in _places(study, "datasets"):
        for condition in dict.fromkeys([*study["conditions"], *SPOKEN_CONDITIONS]):
            key = f"{dataset}.{condition}.conditions.recovered"
            found = [numbers[f"{n}.{key}"] for n in names if f"{n}.{key}" in numbers]
            if len(found) == len(names):
                for name, entry in spread(found).items():
                    made[f"decoders.{key}.{name}"] = entry
    return made


def _of_datasets(study: Mapping[str, Any], measurements: Sequence[Mapping]) -> dict[str, Entry]:
    """Numbers that belong to no condition: of norms, and of reference levels."""
    all_kinds = {"norms": (norm_facts, NORMS), "reference": (reference_facts, REFERENCE)}
    kinds = _only(study["measured"], all_kinds)
    by_cell = {
        (one["measurement"], one["run"]["model"], one["run"]["dataset"]): one
        for one in measurements
        if one["measurement"] in kinds
    }
    numbers: dict[str, Entry] = {}
    for cell, model, dataset, reason in _cells(study):
        for kind, (read, keys) in kinds.items():
            one = by_cell.get((kind, model, dataset))
            found = dict.fromkeys(keys, NotRun(reason)) if reason else read(one) if one else {}
            numbers |= {f"{cell}.{kind}.{key}": entry for key, entry in found.items()}
    return numbers


def _of_models(study: Mapping[str, Any], measurements: Sequence[Mapping]) -> dict[str, Entry]:
    """Numbers that belong to a model: beyond its trained length, and of the masks it learned."""
    longs, masks = {}, {}
    for one in measurements:
        if one["measurement"] == "extrapolation":
            longs[one["run"]["model"]] = one
        elif one["measurement"] == "conditions":
            masks[one["run"]["model"]] = {mask["mask"]: mask for mask in one["masks"]}
    numbers: dict[str, Entry] = {}
    spoken_long = dict.fromkeys([*study["study"]["extrapolation"]["conditions"], *SPOKEN_LONG])
    for model_key, model in _places(study, "models"):
        lacking = f"no {model_key} in this study"
        one = longs.get(model)
        if model is None or one is not None:
            reason = lacking if model is None else one["reason"]
            found = {} if reason else long_facts(one)
            for name, key in (("trained", "trained_tokens"), ("documents", "documents")):
                numbers[f"{model_key}.long.{name}"] = NotRun(reason) if reason else Number(one[key])
            for condition in spoken_long:
                why = NotRun(reason or f"no condition {condition} on long documents in this study")
                for key, entry in found.get(condition, dict.fromkeys(LONG, why)).items():
                    numbers[f"{model_key}.long.{condition}.{key}"] = entry
        for mask in dict.fromkeys([*study["masks"], *SPOKEN_MASKS]):
            if model is None or model in masks:
                why = NotRun(lacking if model is None else f"no mask {mask} of {model}")
                learned = masks.get(model, {}).get(mask)
                entries = mask_facts(learned) if learned else dict.fromkeys(MASK, why)
                for key, entry in entries.items():
                    numbers[f"{model_key}.masks.{mask}.{key}"] = entry
    return numbers
