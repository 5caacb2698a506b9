"""Under which conditions the study evaluates a model, and with which masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypedDict

from posenc.conditions.masks import beneath
from posenc.conditions.section import Condition
from posenc.study.params import Params

Written: TypeAlias = Mapping[str, object]
"""A section of ``params.yaml``, written out."""


class Unit(TypedDict):
    """A condition, and the length that documents are cut to; None for as they are."""

    condition: Written
    tokens: int | None


class MasksJob(TypedDict):
    """What the job reads that learns a model's masks."""

    reading: Written
    device: str
    batch_tokens: int
    calibration_share: float
    masks: dict[str, Written]
    """By name, those that masks begin with among them."""


class ConditionJobs(TypedDict):
    """What those read that learn a model's masks, evaluate it, and measure what came out."""

    masks: MasksJob
    evaluations: Written
    conditions: Written


def suited(params: Params, name: str, conditions: Iterable[str]) -> dict[str, Condition]:
    """The conditions that are for a model, by name."""
    model = params.models[name]
    return {
        # `only` says which models a condition is for, not what it does.
        c: params.conditions[c].model_copy(update={"only": None})
        for c in conditions
        if params.conditions[c].is_for(model.is_decoder, model.positions)
    }


def evaluated_under(params: Params, name: str) -> dict[str, Condition]:
    """The conditions that a model of the study is evaluated under, by name."""
    return suited(params, name, params.study.evaluation_of(name).evaluated)


def condition_jobs(params: Params, name: str) -> ConditionJobs:
    """What the jobs that evaluate a model under all conditions of the study read."""
    study, model = params.study, params.models[name]
    section, reading = params.parameters.conditions, model.reading.model_dump()

    def unit(condition: Condition, tokens: int | None = None) -> Unit:
        for mask in condition.masks():
            named.update([mask, *beneath(params.masks, mask)])
        return {"condition": condition.model_dump(), "tokens": tokens}

    named: set[str] = set()
    own = study.evaluation_of(name)
    conditions = {c: unit(spec) for c, spec in evaluated_under(params, name).items()}
    beyond = study.extrapolation
    goes_beyond = beyond and model.is_decoder and model.max_tokens < beyond.tokens
    longer = beyond.conditions if beyond and goes_beyond else []
    long = {c: unit(spec) for c, spec in suited(params, name, longer).items()}
    sweeps, units = {}, dict(conditions)
    for name_of_sweep in own.sweeps if model.is_decoder else []:
        sweep = params.sweeps[name_of_sweep]
        varied: dict[str, dict[str, float]] = {
            c: {} for c in suited(params, name, sweep.conditions)
        }
        for c, value, condition, tokens in sweep.units(params.conditions):
            if c in varied:
                condition = condition.model_copy(update={"only": None})
                units[f"{c}@{value}"] = unit(condition, tokens)
                varied[c][f"{c}@{value}"] = float(value)
        sweeps[name_of_sweep] = {"key": sweep.key, "units": varied}
    device, batch_tokens = params.activations.device, section.batch_tokens
    parameters = section.model_dump()
    controls = {c: control for c, control in parameters["controls"].items() if c in conditions}
    return {
        "masks": {
            "reading": reading,
            "device": device,
            "batch_tokens": batch_tokens,
            "calibration_share": section.calibration_share,
            "masks": {mask: params.masks[mask].model_dump() for mask in sorted(named)},
        },
        "evaluations": {
            "reading": reading,
            "device": device,
            "batch_tokens": batch_tokens,
            "precision": params.activations.precision,
            "documents": own.documents or section.documents,
            "special_tokens": section.special_tokens,
            "datasets": study.datasets,
            "units": units,
            "long": long,
        },
        "conditions": {
            "parameters": {**parameters, "controls": controls},
            "extrapolation": beyond and beyond.model_dump(),
            "datasets": study.datasets,
            "conditions": {c: evaluation["condition"] for c, evaluation in conditions.items()},
            "sweeps": sweeps,
        },
    }


def masks_of(params: Params, model: str) -> list[str]:
    """Names of the masks that are learned for a model of the active study."""
    return list(condition_jobs(params, model)["masks"]["masks"])
