"""What tables and documents say about the active study: ``study.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from posenc.artifacts.files import sha256_json
from posenc.conditions.section import dumped
from posenc.study import declared
from posenc.study.evaluations import Written, masks_of
from posenc.study.params import Params
from posenc.study.plan import experiment, figures, scheme


class ModelFacts(TypedDict):
    """What documents say of a model."""

    family: str
    is_decoder: bool
    positions: str
    max_tokens: int
    source: Written
    title: str | None


class MeasuredFacts(TypedDict):
    """The active study, and what its measurements depend on, by name."""

    study: Written
    """What it chose is in the other keys, in full."""
    authors: list[str]
    measured: list[str]
    measurements: Mapping[str, Written]
    """What each is of, and where its files are."""
    figures: list[str]
    models: dict[str, ModelFacts]
    schemes: dict[str, str]
    """How positions come into a model that is only probed."""
    matrices: dict[str, Written]
    datasets: dict[str, Written]
    conditions: dict[str, Written]
    masks: dict[str, Written]
    sweeps: dict[str, Written]


class Facts(MeasuredFacts):
    """What tables and documents say about the active study: ``study.json``."""

    labels: Mapping[str, str]
    about: dict[str, str]
    """Sentences about conditions."""
    documents: list[str]
    parameters: str
    """Digest of all that a measurement of the study depends on."""


def facts(params: Params) -> Facts:
    """What tables and documents say about the active study."""
    study_facts = _facts(params)
    # All that a measurement of the study depends on; documents carry its digest.
    more = [params.activations, params.parameters]
    more += [experiment(params, kind) for kind in params.study.experiments.kinds]
    digest = sha256_json([study_facts, *(section.model_dump() for section in more)])
    # Words and documents do not affect what was measured, so the digest leaves them out.
    about = {name: said for name, said in params.about.items() if name in study_facts["conditions"]}
    return {
        **study_facts,
        "labels": params.figures.style.labels,
        "about": about,
        "documents": list(params.study.documents),
        "parameters": digest,
    }


def _facts(params: Params) -> MeasuredFacts:
    active = params.study
    return {
        "study": {
            **active.model_dump(exclude={"measurements", "parameters", "figures", "documents"}),
            "title": active.title or active.name,
        },
        "authors": params.authors,
        "measured": active.measured,
        "measurements": declared.facts(active.measured),
        "figures": figures(params),
        "models": {
            name: {
                "family": model.family,
                "is_decoder": model.is_decoder,
                "positions": model.positions,
                "max_tokens": model.max_tokens,
                "source": model.source.model_dump(),
                "title": model.title,
            }
            for name in active.models
            for model in [params.models[name]]
        },
        "schemes": {name: scheme(params, name) for name in active.schemes},
        "matrices": {name: params.matrices[name].model_dump() for name in active.matrices},
        "datasets": {name: params.datasets[name].model_dump() for name in active.datasets},
        "conditions": {name: dumped(params.conditions[name]) for name in active.all_conditions},
        "masks": {
            mask: params.masks[mask].model_dump()
            for model in active.models
            for mask in masks_of(params, model)
        },
        "sweeps": {name: params.sweeps[name].model_dump() for name in active.all_sweeps},
    }
