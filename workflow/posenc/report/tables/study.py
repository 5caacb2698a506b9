"""Rows of the tables of models and data sets, similarity, perplexity and published values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict
from urllib.parse import urlsplit

from posenc.artifacts.numbers import NotRun, Number
from posenc.report import quantities as keys
from posenc.report.collection import collect
from posenc.report.readers import numbers_of
from posenc.report.records import Results
from posenc.report.tables.cells import (
    column,
    display,
    escape,
    intervals,
    number_of,
    shared_decimals,
)
from posenc.tokens.coverage import Coverage


class Models(TypedDict):
    """The table of models."""

    rows: list[list[str]]


class DataSets(TypedDict):
    """The table of data sets; ``notes`` say what is cut of documents."""

    rows: list[list[str]]
    notes: list[str]


class RunRow(TypedDict):
    """A row of a table of runs: its names, and its numbers or why there are none."""

    names: list[str]
    reason: str | None
    cells: Sequence[str]


class RunTable(TypedDict):
    """A table of runs, with the ``table-format`` of columns of numbers by their names."""

    rows: list[RunRow]
    formats: dict[str, str]


class Published(TypedDict):
    """A table of published values beside ours, laid out by ``template``."""

    template: str
    rows: list[list[str]]


def _rows(runs: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping], list[RunRow]]:
    """Split runs into the measured ones, and one row for each model and reason of the others."""
    measured = [run for run in runs if run["status"] == "measured"]
    others = [run for run in runs if run["status"] != "measured"]
    reasons = dict.fromkeys((run["run"]["model"], run["reason"]) for run in others)
    return measured, [
        {"names": [display(model), "--", "--"], "reason": escape(reason), "cells": []}
        for model, reason in reasons
    ]


def _names(run: Mapping[str, Any]) -> list[str]:
    return [display(run["run"][part]) for part in ("model", "dataset", "condition")]


def models_table(results: Results) -> Models:
    """Rows of the table of models."""
    rows = []
    for name in results.study["study"]["models"]:
        model = results.study["models"][name]
        width, layers = (rf"\num{{{size}}}" if size else "--" for size in _shape(results, name))
        kind = "decoder" if model["is_decoder"] else "encoder"
        tokens = rf"\num{{{model['max_tokens']}}}"
        family = escape(model["family"])
        rows.append([display(name), kind, family, width, layers, tokens, weights(results, name)])
    return {"rows": rows}


def _shape(results: Results, name: str) -> tuple[int | None, int | None]:
    """Width and number of layers of a model: as verified, or else as far as measurements say."""
    if name in results.verifications:
        verification = results.verifications[name]
        return verification["d_model"], verification["n_layers"]
    runs = [run for run in results.of("similarity") if run["run"]["model"] == name]
    widths = [run["d_model"] for run in runs if run["status"] == "measured"]
    # A model without activations is evaluated all the same: a cosine for each hidden state.
    evaluated = [run for run in results.of("conditions") if run["run"]["model"] == name]
    states = [len(entry["layers"]) for run in evaluated for entry in run["conditions"]]
    return next(iter(widths), None), max(states, default=1) - 1 or None


def datasets_table(results: Results) -> DataSets:
    """Rows of the table of data sets, with the documents whose activations are kept."""
    rows = []
    for name in results.study["study"]["datasets"]:
        dataset, source = results.study["datasets"][name], results.study["datasets"][name]["source"]
        here = [run for run in results.of("similarity") if run["run"]["dataset"] == name]
        counts = [run["documents"] for run in here if run["status"] == "measured"]
        origin = {
            "url": lambda s: f"archive at {urlsplit(s['url']).hostname}",
            "public": lambda s: f"published at {urlsplit(s['url']).hostname}",
            "path": lambda s: f"local file {re.split(r'[/]', s['path'])[-1]}",
            "hub": lambda s: f"hub: {s['id']}",
            "sample": lambda s: f"generated, seed {s['seed']}",
        }[source["kind"]](source)
        documents = rf"\num{{{max(counts)}}}" if any(counts) else "--"
        split = escape(dataset["evaluation"]["split"])
        rows.append([display(name), escape(dataset["format"]), split, documents, escape(origin)])
    return {"rows": rows, "notes": list(_cut(results))}


def _cut(results: Results) -> Iterator[str]:
    """What is cut of documents that are longer than a model reads, one per model and data set."""
    for measurement in results.of("conditions"):
        coverage = Coverage(**measurement["coverage"])
        if coverage.cut:
            model, dataset = (display(measurement["run"][part]) for part in ("model", "dataset"))
            yield (
                rf"{model}, {dataset}: \num{{{coverage.cut}}} of \num{{{coverage.documents}}} "
                rf"documents cut, \qty{{{coverage.percent}}}{{\percent}} of the tokens read"
            )


def _numbers(run: Mapping[str, Any]) -> dict[str, Number | None]:
    """The numbers of a run, None where there is none."""
    entries = numbers_of(run).items()
    return {key: number_of(entry) for key, entry in entries}


def similarity_table(results: Results) -> RunTable:
    """Rows of the table of token cosines, without the intact model's."""
    runs = [run for run in results.of("similarity") if run["run"]["condition"] != keys.INTACT]
    measured, others = _rows(runs)
    facts = [_numbers(run) for run in measured]
    documents, _ = column([values["documents"] for values in facts])
    tokens, form = column([values["tokens"] for values in facts])
    names = ("embedding.cosine", "last.cosine", "last.baseline", "last.rescaled")
    decimals = shared_decimals([values[name] for values in facts for name in names], most=4)
    columns, forms = [documents, tokens], []
    for name in names:
        entries = [values[name] for values in facts]
        cells, form_here = column(entries, decimals)
        columns.append(cells)
        forms.append(form_here)
        if name.endswith("cosine"):
            columns.append(intervals(entries, decimals))
    # A sign in one column leaves room for it in all, so that they look alike.
    formats = {"tokens": form, "cosine": min(forms, default="1.4")}
    rows: list[RunRow] = [
        {"names": _names(run), "reason": None, "cells": cells}
        for run, cells in zip(measured, zip(*columns, strict=True), strict=True)
    ]
    return {"rows": rows + others, "formats": formats}


def perplexity_table(results: Results) -> RunTable:
    """Rows of the table of perplexities; models without a head say so."""
    measured, others = _rows(results.of("perplexity"))
    facts = [numbers_of(run) for run in measured]
    # The change against itself is zero by definition.
    changes = [
        None if run["run"]["condition"] == keys.INTACT else values["delta_nll"]
        for run, values in zip(measured, facts, strict=True)
    ]
    series: dict[str, tuple[Sequence, int | None]] = {
        "documents": ([values["documents"] for values in facts], None),
        "tokens": ([values["tokens"] for values in facts], None),
        "perplexity": ([values["perplexity"] for values in facts], None),
        "delta": (changes, 3),
        "bits": ([values["bits_per_byte"] for values in facts], 3),
        "share": ([values["worse_than_uniform"] for values in facts], 4),
        "mean": ([values["sequence.mean"] for values in facts], None),
        "median": ([values["sequence.median"] for values in facts], None),
    }
    columns, formats = [], {}
    for name, (entries, most) in series.items():
        decimals = None if most is None else shared_decimals(entries, most)
        cells, formats[name] = column(entries, decimals)
        columns.append(cells)
        if name in ("perplexity", "delta"):
            columns.append(intervals(entries, decimals))
    rows: list[RunRow] = [
        {"names": _names(run), "reason": None, "cells": cells}
        for run, cells in zip(measured, zip(*columns, strict=True), strict=True)
    ]
    return {"rows": rows + others, "formats": formats}


def published_table(results: Results, table: str = "results") -> Published:
    """Published values beside ours; it says where our model is another one.

    Parameters
    ----------
    results : Results
        All that is typeset.
    table : str
        Which of the published values; those that name no table are in ``results``.
    """
    numbers = collect(results)
    rows = []
    for key, value in results.published["values"].items():
        if value.get("table", "results") != table:
            continue
        theirs = [rf"\word{{{escape(value['quantity'])}}}"]
        theirs += [escape(value["condition"]), escape(value["model"])]
        theirs.append(rf"\published{{{key}}}")
        if not value["ours"]:
            empty = ["--"] * 3
            rows.append([*theirs, *empty, r"\notrunmark", r"\word{no such condition}"])
        for ours in value["ours"]:
            if ours not in numbers:
                remark = r"\word{not part of this study}"
                rows.append([*theirs, *["--"] * 3, r"\notrunmark", remark])
                theirs = [""] * 4
                continue
            entry, place = numbers[ours], numbers.places[ours]
            if isinstance(entry, NotRun):
                comparison = escape(entry.reason)
            else:
                same = keys.weights_of(results.study, place.model) in value["weights"]
                # Values of two models are not compared: neither replicates the other.
                comparison = r"\word{other model}"
                if same:
                    comparison = (
                        rf"\word{{same model}}\word{{: }}\compared{{{ours}}}{{published.{key}}}"
                        r"{\word{higher}}{\word{lower}}{\word{not distinguishable}}"
                    )
            of = (place.model, place.dataset, place.condition)
            names = [display(name) if name else "--" for name in of]
            rows.append([*theirs, *names, rf"\measured{{{ours}}}", comparison])
            theirs = [""] * 4
    return {"template": "published", "rows": rows}


def published_experiments_table(results: Results) -> Published:
    """Published values of trained networks beside ours."""
    return published_table(results, "experiments")


def texts(results: Results, dataset: str) -> str:
    """Whether people or the workflow wrote a data set's texts."""
    kind = results.study["datasets"][dataset]["source"]["kind"]
    kinds = {"sample": "synthetic, made from a grammar", "path": "texts of a local file"}
    return rf"\word{{{kinds.get(kind, 'published texts')}}}"


def weights(results: Results, model: str) -> str:
    """What a model's weights are, where it has a title, and where they come from."""
    source, title = (results.study["models"][model][part] for part in ("source", "title"))
    if source["kind"] == "train":
        origin = f"trained by us on {display(results.study['study']['trained'][model])}"
    else:
        named = {"package": "package", "hub": "id", "path": "path"}[source["kind"]]
        origin = f"{source['kind']}: {escape(source[named])}"
    return f"{escape(title)}, {origin}" if title else origin


TABLES = {
    "models": models_table,
    "datasets": datasets_table,
    "similarity": similarity_table,
    "perplexity": perplexity_table,
    "published": published_table,
    "published_experiments": published_experiments_table,
}
