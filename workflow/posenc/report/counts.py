"""On how many documents each model was measured, as the caption of a figure says it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from posenc.artifacts.numbers import Number
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.conditions.quantities import tokens_of
from posenc.report.records import Results
from posenc.report.tables.cells import display, number

T = TypeVar("T")


def span(counts: Collection[int]) -> str:
    """A count as LaTeX, or the least and the most of several."""
    return " to ".join(number(Number(end)) for end in dict.fromkeys((min(counts), max(counts))))


def size(runs: Collection[Mapping[str, Any]]) -> str:
    """Documents and tokens of measurements on one data set, from least to most.

    Parameters
    ----------
    runs
        Measurements with ``documents`` and ``tokens``, at least one.
    """
    documents = span({run["documents"] for run in runs})
    return f"{documents} documents, {span({tokens_of(run) for run in runs})} tokens"


def drawn_of(results: Results, figure: Exhibit) -> list[Mapping[str, Any]]:
    """The measurements that a figure is of, measured or not."""
    kinds, positions = figure.kinds(), figure.positions
    return [
        measurement
        for measurement in results.measurements
        if measurement["measurement"] in kinds
        and (not positions or measurement.get("positions", positions) == positions)
        and (not figure.decoders or measurement.get("is_decoder", True))
    ]


def reasons_of(results: Results, figure: Exhibit) -> list[str]:
    """Why a figure shows nothing; empty where it has a measurement, or is not of these at all."""
    runs = drawn_of(results, figure)
    if any(run["status"] == "measured" for run in runs):
        return []
    return list(dict.fromkeys(run["reason"] for run in runs))


def documents_of(results: Results, figure: Exhibit) -> str:
    """How many documents of each data set the measurements of a figure used, by model.

    Models with the same documents stand together. Nothing where no measurement is of documents.

    Parameters
    ----------
    results
        All that is typeset.
    figure
        What the catalogue says of it.
    """
    counts: dict[str, dict[str, set[int]]] = {}
    for measurement in drawn_of(results, figure):
        if measurement["status"] != "measured":
            continue
        model, dataset = (measurement["run"].get(part) for part in ("model", "dataset"))
        documents = measurement.get("documents")
        if model and dataset and isinstance(documents, int):
            counts.setdefault(model, {}).setdefault(dataset, set()).add(documents)
    if figure.drawn != "all":
        counts = {model: _first(own) for model, own in counts.items()}
    if figure.drawn == "first model":
        counts = _first(counts)
    groups: dict[str, list[str]] = {}
    for model, own in counts.items():
        said = ", ".join(f"{display(dataset)} {span(sizes)}" for dataset, sizes in own.items())
        groups.setdefault(said, []).append(display(model))
    if len(groups) < 2:
        return "".join(f"Documents: {said}." for said in groups)
    named = (f"{said} ({', '.join(models)})" for said, models in groups.items())
    return f"Documents: {'; '.join(named)}."


def _first(entries: Mapping[str, T]) -> dict[str, T]:
    """The first entry alone, of those that there are."""
    return dict(itertools.islice(entries.items(), 1))
