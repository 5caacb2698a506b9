"""Every number that a document may print, by key, and how it is written.

A key is ``MODEL.DATASET.CONDITION.MEASUREMENT.QUANTITY``. The first model of each kind and the
first data set of each format have a role's name too (``encoder``, ``decoder``; ``reviews``,
``questions``), so that the text of a document fits every study. A role's name takes precedence
over a model or data set that happens to be called the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INTACT = "intact"
HEADLINE_CONDITIONS = (INTACT, "zero")
"""The documents speak of these, also when a study lacks one."""

ESTIMATES = {
    "similarity": ("cosine", "baseline", "rescaled"),
    "perplexity": (
        "perplexity", "bits_per_byte", "nll_per_token", "worse_than_uniform", "delta_nll",
        "perplexity_ratio",
    ),
}  # fmt: skip
COUNTS = {
    "similarity": ("documents", "tokens", "d_model"),
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
            for quantity in (*ESTIMATES["similarity"], "token_sd")
        ),
    ),
    "perplexity": (
        *COUNTS["perplexity"],
        *ESTIMATES["perplexity"],
        "sequence.mean",
        "sequence.median",
    ),
}
"""What a run has by measurement, whether it was run or not; measured runs have all layers."""


@dataclass(frozen=True)
class Number:
    """A number, with its interval where it is an estimate."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class NotRun:
    """There is no number, and why."""

    reason: str


Entry = Number | NotRun


def decimals_of(number: Number) -> int:
    """How many decimals of a number mean something.

    Two significant digits of half its interval's width, but at least three and at most six of
    the number itself; four of a number without interval. Counts are whole. Negative for tens and
    hundreds.
    """
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
            found[f"{name}.token_sd"] = Number(layer["token_sd"])
            for key in ESTIMATES[kind]:
                found[f"{name}.{key}"] = Number(**layer[key])
    else:
        for key in ESTIMATES[kind]:
            found[key] = Number(**measurement[key])
        for key, value in measurement["sequence_perplexity"].items():
            found[f"sequence.{key}"] = Number(value)
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
        Its similarity and perplexity measurements.
    trainings : sequence of mapping
        Summaries of the models that it trains.

    Returns
    -------
    dict
        Runs that a document may speak of but that the study lacks are ``NotRun``.
    """
    by_run: dict[tuple[str, str, str], dict[str, Entry]] = {}
    for measurement in measurements:
        run = tuple(measurement["run"][part] for part in ("model", "dataset", "condition"))
        for key, entry in facts(measurement).items():
            by_run.setdefault(run, {})[f"{measurement['measurement']}.{key}"] = entry
    empty = [f"{kind}.{key}" for kind, keys in QUANTITIES.items() for key in keys]
    conditions = study["study"]["conditions"]
    numbers: dict[str, Entry] = {"constant.zero": Number(0), "constant.one": Number(1)}
    for model_key, model in _places(study, "models"):
        for dataset_key, dataset in _places(study, "datasets"):
            for condition in dict.fromkeys([*conditions, *HEADLINE_CONDITIONS]):
                reason = None
                if model is None:
                    reason = f"no {model_key} in this study"
                elif dataset is None:
                    reason = f"no {dataset_key} in this study"
                elif condition not in conditions:
                    reason = f"no condition {condition} in this study"
                found = by_run.get((model, dataset, condition), {})
                entries = found if reason is None else dict.fromkeys(empty, NotRun(reason))
                for key, entry in entries.items():
                    numbers[f"{model_key}.{dataset_key}.{condition}.{key}"] = entry
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
