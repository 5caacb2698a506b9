"""What conditions recover of what positions are worth, by size and type of model: a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.architectures.table import VERIFICATION
from posenc.artifacts.files import read_json, read_sealed
from posenc.artifacts.places import STUDIES
from posenc.artifacts.results import Interval
from posenc.measurements.conditions.result import EvaluatedConditions
from posenc.measurements.declaration import INTACT, WITHOUT
from posenc.measurements.savings.result import Savings
from posenc.study.declared import place_of
from posenc.study.params import Params

ABSENT = "-"


def table(params: Params) -> list[str]:
    """The models of the active study on each of its data sets, the smallest first.

    A line has the model, its data set and type, its parameters in millions (of the measurement
    `savings`, where the study has it), the loss with positions and what is lost without them (nats
    per token), and the recovered share of that under each other condition, with its interval. A
    model that was not evaluated has the reason instead. For a single model, each data set is a
    column, and conditions have their labels beside them.

    Raises
    ------
    ArtifactError
        If the study is not evaluated yet, or a file of it is damaged.
    """
    study = params.study
    names = [name for name in study.all_conditions if name not in (INTACT, WITHOUT)]
    rows: list[tuple[float, list[str]]] = []
    for model in study.models:
        for dataset in study.datasets:
            size = _size(params, model, dataset)
            rows.append((size, _row(params, model, dataset, size, names)))
    rows.sort(key=lambda row: row[0])  # models without a size come last
    labels = params.figures.style.labels
    heads = ["model", "data set", "type", "million", "nats", "lost", *names]
    cells = [heads, *(row for _, row in rows)]
    if len(study.models) == 1:  # conditions, which are many, one below another
        meant = [*[""] * (len(heads) - len(names)), *(labels.get(name, "") for name in names)]
        columns = [[*row, *[""] * (len(heads) - len(row))] for row in cells[1:]]
        cells = [list(line) for line in zip(heads, *columns, meant, strict=True)]
    whole = [row for row in cells if len(row) == len(cells[0])]
    widths = [max(len(row[place]) for row in whole) for place in range(len(cells[0]))]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in cells
    ]


def _row(params: Params, model: str, dataset: str, size: float, names: list[str]) -> list[str]:
    first = [model, dataset, _type(params, model)]
    first.append(f"{size / 1e6:,.1f}" if math.isfinite(size) else ABSENT)
    measurement = _read(params, "conditions", model, dataset)
    if measurement["status"] != "measured" or not measurement["is_decoder"]:
        return [*first, f"not run: {measurement['reason'] or 'no losses'}"]
    entries = {entry.condition: entry for entry in EvaluatedConditions.of(measurement).conditions}
    without = entries.get(WITHOUT)
    shares = (entries[name].recovered if name in entries else None for name in names)
    return [
        *first,
        _nats(entries[INTACT].nll_per_token),
        _nats(without.delta_nll if without else None),
        *map(_share, shares),
    ]


def _nats(loss: Interval | None) -> str:
    return ABSENT if loss is None else f"{loss.value:.3f}"


def _share(share: Interval | None) -> str:
    """A recovered share with its interval; absent if nothing is lost or no model has it."""
    if share is None:
        return ABSENT
    return f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]"


def _size(params: Params, model: str, dataset: str) -> float:
    """The number of a model's parameters; infinite if it was not counted."""
    if "savings" not in params.study.measured:
        return math.inf
    measurement = _read(params, "savings", model, dataset)
    if measurement["status"] != "measured":
        return math.inf
    return float(Savings.of(measurement).parameters.all)


def _type(params: Params, model: str) -> str:
    """The type that a model's configuration names, as verified when the model was fetched."""
    path = Path("data/models", model, VERIFICATION)
    model_type: str = (
        read_json(path)["model_type"] if path.is_file() else params.models[model].family
    )
    return model_type


def _read(params: Params, kind: str, model: str, dataset: str) -> Mapping[str, Any]:
    return read_sealed(STUDIES / params.study.name / place_of(kind, model, dataset))
