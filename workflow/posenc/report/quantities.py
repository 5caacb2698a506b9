"""The numbers of a study, measurement by measurement, and how they are written."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number
from posenc.conditions.positions import ROTATION, TABLE

INTACT = "intact"
HEADLINE_CONDITIONS = (INTACT, "zero")
"""The documents speak of these, even when a study lacks one."""
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

TRAINING = (
    "parameters", "steps", "tokens_seen", "training_documents", "validation_documents",
    "final_training_loss", "final_validation_loss", "best_validation_loss",
)  # fmt: skip
NEED_EMBEDDINGS = ("readback", "relative_attention", "embedding_sums", "norms")
"""Measurements of weights that need token embeddings; others need a model that runs."""
OVER_DECODERS = ("mean", "sd", "least")
"""Of shares that decoders of other seeds recover."""


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
    half = 0.0
    if number.low is not None and number.high is not None:
        half = (number.high - number.low) / 2
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


def training_facts(training: Mapping[str, Any]) -> dict[str, Entry]:
    """The numbers of a training's summary."""
    return {key: Number(training[key]) for key in TRAINING}


def spread(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Mean, standard deviation (of n - 1) and least of the numbers among entries."""
    values = [entry.value for entry in entries if isinstance(entry, Number)]
    summary: dict[str, Entry] = dict.fromkeys(OVER_DECODERS, NotRun("no decoder has this number"))
    if values:
        summary["mean"], summary["least"] = Number(statistics.fmean(values)), Number(min(values))
        summary["sd"] = NotRun("one decoder in this study")
    if len(values) > 1:
        summary["sd"] = Number(statistics.stdev(values))
    return summary


def model_roles(study: Mapping[str, Any]) -> dict[str, str | None]:
    """The first encoder, decoder and rotary decoder of a study; None where it has none."""
    models = [(name, study["models"][name]) for name in study["study"]["models"]]
    kinds = {
        "encoder": [name for name, model in models if not model["is_decoder"]],
        "decoder": [name for name, model in models if model["is_decoder"]],
        "rotary_decoder": [name for name, model in models if model["positions"] == ROTATION],
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


def encoders(study: Mapping[str, Any]) -> list[str]:
    """Models of a study without a loss."""
    return [name for name, model in study["models"].items() if not model["is_decoder"]]


def seeds(study: Mapping[str, Any]) -> list[str]:
    """The first of the :func:`decoders`, and those that differ from it in their seed alone."""
    names = decoders(study)
    sources = [{**study["models"][name]["source"], "seed": None} for name in names]
    return [name for name, source in zip(names, sources, strict=True) if source == sources[0]]


def weights_of(study: Mapping[str, Any], model: str) -> str:
    """What published values call a model's weights, or a table of positions; or nothing."""
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


def not_of_parts(study: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Why parts of a study's checkpoints lack measurements, by part and measurement."""
    parts = [name for name, matrix in study["matrices"].items() if matrix.get("n_heads")]
    kinds = [
        kind
        for kind, facts in study["measurements"].items()
        if kind in study["measured"] and "model" in facts["of"] and not facts.get("of_matrices")
    ]
    needs = {False: "needs a model that runs", True: "needs token embeddings"}
    return {(part, kind): needs[kind in NEED_EMBEDDINGS] for part in parts for kind in kinds}
