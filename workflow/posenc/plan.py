"""What a study consists of: its sections as small files, its runs, and the paths of artifacts.

Snakemake compares what a rule reads by content when it is a file; so each section of
``params.yaml`` that a step reads is written to ``data/config``, only when it changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .config.models import TrainSource
from .config.params import Params
from .files import write_json_if_changed

CONFIG = Path("data/config")


def sections(params: Params) -> Iterator[tuple[Path, Any]]:
    """Pairs of a path under ``data/config`` and the JSON value that it holds."""
    for kind in ("datasets", "models"):
        for name, section in getattr(params, kind).items():
            for step, part in section.steps().items():
                yield CONFIG / kind / name / f"{step}.json", part.model_dump()
    for name, condition in params.conditions.items():
        yield CONFIG / "conditions" / f"{name}.json", condition.model_dump()
    yield CONFIG / "activations.json", params.activations.model_dump()
    for kind in ("measurements", "figures"):
        for name, part in getattr(params, kind):
            yield CONFIG / kind / f"{name}.json", part.model_dump()
    yield CONFIG / "study.json", study(params)


def materialize(params: Params) -> None:
    """Write every section that changed to ``data/config``, and a stamp that says they are valid.

    DVC's first stage makes the stamp too, and the others wait for it. A study that trains nothing
    has an empty ``data/training``, which DVC's stages name.
    """
    for path, value in sections(params):
        write_json_if_changed(path, value)
    write_json_if_changed(CONFIG / "valid", "params.yaml is valid")
    Path("data/training").mkdir(parents=True, exist_ok=True)


def study(params: Params) -> dict[str, Any]:
    """What tables and documents say of the active study."""
    active = params.study
    return {
        "study": active.model_dump(),
        "models": {
            name: {
                "family": model.family,
                "is_decoder": model.is_decoder,
                "max_tokens": model.max_tokens,
                "source": model.source.model_dump(),
            }
            for name in active.models
            for model in [params.models[name]]
        },
        "datasets": {name: params.datasets[name].model_dump() for name in active.datasets},
        "conditions": {name: params.conditions[name].model_dump() for name in active.conditions},
    }


def training_dataset(params: Params, model: str) -> str:
    """The data set that a trained model learns from, in whichever study names it.

    Raises
    ------
    ValueError
        If no study trains it.
    """
    for candidate in (params.study, *params.studies.values()):
        if model in candidate.trained:
            return candidate.trained[model]
    raise ValueError(f"no study trains {model!r}: list it under studies.*.trained")


def trained(params: Params) -> list[str]:
    """Models that the workflow trains."""
    return [n for n, model in params.models.items() if isinstance(model.source, TrainSource)]


def pretrained(params: Params) -> list[str]:
    """Models whose weights are fetched."""
    return [name for name in params.models if name not in trained(params)]


def alternatives(names) -> str:
    """A regular expression that matches exactly these names, and nothing when there are none."""
    return "|".join(map(re.escape, names)) or r"(?!)"
