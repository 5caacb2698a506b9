"""Rows of the table of what a mask means, beside the versions of the library that meant it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from posenc.conditions.groups import semantics_of
from posenc.measurements.conditions.quantities import condition_facts
from posenc.report import quantities as keys
from posenc.report.records import Results
from posenc.report.tables.cells import column, display, escape, interval, number_of, shared_decimals
from posenc.report.tables.evaluation import headline, lacking


class SemanticsRow(TypedDict):
    """A semantics: the condition that has it, its :func:`ranges`, and its numbers."""

    key: str
    name: str
    ranges: list[dict[str, str]]
    cells: list[str]


class Semantics(TypedDict):
    """The table of semantics."""

    rows: list[SemanticsRow]
    formats: list[str]
    reason: str | None


def ranges(versions: Mapping[str, Any], semantics: str) -> list[dict[str, str]]:
    """Where real versions of the library did with GPT-2 what a semantics says.

    Parameters
    ----------
    versions : mapping
        docs/mask-versions.json.
    semantics : str
        Its name.

    Returns
    -------
    list of dict
        ``implementation``, ``first`` and ``last`` version of each unbroken range: of the linear
        mask, or of the four-dimensional one for the semantics that only it reaches.
    """
    run = [release for release in versions["versions"] if release["status"] == "run"]
    mask = "4-D log" if semantics == "log_mask" else "linear 0.1"
    implementations = dict.fromkeys(
        case["implementation"]
        for release in run
        for case in release["cases"]
        if case["model"] == "gpt2" and "output_attentions" not in case["implementation"]
    )
    spans: list[dict[str, str]] = []
    for implementation in implementations:
        is_open = False
        for release in run:
            cases = [
                case
                for case in release["cases"]
                if (case["model"], case["implementation"], case["mask"])
                == ("gpt2", implementation, mask)
            ]
            agrees = bool(cases) and all(semantics in case["agrees_with"] for case in cases)
            if agrees and is_open:
                spans[-1]["last"] = release["version"]
            elif agrees:
                version = release["version"]
                spans.append({"implementation": implementation, "first": version, "last": version})
            is_open = agrees
    return spans


def semantics_table(results: Results) -> Semantics:
    """What one mask means, where the library meant it, what is tested of it, and what it costs."""
    dataset = keys.dataset_roles(results.study)["reviews"]
    runs = [run for run in headline(results) if run["run"]["dataset"] == dataset]
    facts = condition_facts(runs[0]) if runs else {}
    rows: dict[str, str] = {}
    for name, spec in results.study["conditions"].items():
        row = semantics_of(spec)
        if row is not None and spec.get("position") == "zero" and row not in rows:
            rows[row] = name
    entries = [facts.get(name, {}) for name in rows.values()]
    values, form = column([number_of(entry.get("perplexity")) for entry in entries])
    changes = [number_of(entry.get("delta_nll_without")) for entry in entries]
    decimals = shared_decimals(changes, most=3)
    differences, difference_form = column(changes, decimals)
    return {
        "rows": [
            {
                "key": row,
                "name": display(name),
                "ranges": [
                    {key: escape(value) for key, value in span.items()}
                    for span in ranges(results.versions, row)
                ],
                "cells": [
                    value,
                    difference,
                    "--" if change is None else interval(change, decimals),
                ],
            }
            for (row, name), value, difference, change in zip(
                rows.items(), values, differences, changes, strict=True
            )
        ],
        "formats": [form, difference_form],
        "reason": None if facts else lacking(results),
    }


TABLES = {"semantics": semantics_table}
