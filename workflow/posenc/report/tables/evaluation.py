"""Rows of the tables of evaluated conditions, norms and reference levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from posenc.artifacts.numbers import Entry, NotRun, Number
from posenc.conditions.groups import GROUPS, group_of, grouped, semantics_of
from posenc.measurements.conditions.quantities import condition_facts, mask_facts
from posenc.measurements.conditions.result import Mask
from posenc.measurements.norms import quantities as norms
from posenc.report import quantities as keys
from posenc.report.counts import size
from posenc.report.readers import numbers_of
from posenc.report.records import Results
from posenc.report.tables.cells import (
    Grid,
    column,
    display,
    escape,
    intervals,
    number,
    number_of,
    shared_decimals,
)


class Block(TypedDict):
    """Rows of a table under one title, or why there are none."""

    title: str
    reason: str | None
    rows: list[list[str]]


class Conditions(TypedDict):
    """The table of conditions: three formats of numbers for each data set."""

    datasets: list[str]
    formats: list[list[str]]
    blocks: list[Block]
    reason: str | None


class Recovery(TypedDict):
    """The table of recovered shares: a format for each decoder, and two more of their spread."""

    decoders: list[str]
    formats: list[str]
    has_spread: bool
    blocks: list[Block]
    reason: str | None


class Reference(TypedDict):
    """The table of reference levels: two formats of numbers for each data set."""

    datasets: list[str]
    formats: list[list[str]]
    levels: list[list[str]]
    conditions: list[list[str]]
    model: str
    reason: str | None


def headline(results: Results) -> list[Mapping[str, Any]]:
    """Measured conditions of the first decoder, a data set each."""
    model = keys.model_roles(results.study)["decoder"]
    return [run for run in results.of("conditions") if run["run"]["model"] == model]


def lacking(results: Results) -> str:
    """Why there is no decoder to speak of."""
    reasons = [run["reason"] for run in headline(results) if run["reason"]]
    return escape("; ".join(dict.fromkeys(reasons)) or "no decoder in this study")


def _columns(
    entries: Sequence[Entry | None], decimals: int | None = None, with_interval: bool = True
) -> tuple[list[list[str]], str]:
    """A column of numbers and, beside it, one of their intervals; the format of the first."""
    numbers = [number_of(entry) for entry in entries]
    cells, form = column(numbers, decimals)
    return [cells, intervals(numbers, decimals)] if with_interval else [cells], form


def _transposed(columns: Iterable[Sequence[str]]) -> list[list[str]]:
    return [list(row) for row in zip(*columns, strict=True)]


def conditions_table(results: Results) -> Conditions:
    """All conditions of the first decoder: perplexity, change of loss, recovered share."""
    runs = headline(results)
    specs = results.study["conditions"]
    blocks = {"": [keys.INTACT], **grouped(specs)}
    facts = [condition_facts(run) for run in runs]
    named = {
        group: [n for n in names if any(n in f for f in facts)] for group, names in blocks.items()
    }
    order = [name for names in named.values() for name in names]
    columns, formats = [[display(name) for name in order]], []
    for by_condition in facts:
        here = [by_condition.get(name, {}) for name in order]
        changes = [
            None if n == keys.INTACT else e.get("delta_nll")
            for n, e in zip(order, here, strict=True)
        ]
        decimals = shared_decimals(map(number_of, changes), most=3)
        shares = [
            None if n in (keys.INTACT, "zero") else e.get("recovered")
            for n, e in zip(order, here, strict=True)
        ]
        parts = [
            _columns([entry.get("perplexity") for entry in here]),
            _columns(changes, decimals),
            _columns(shares, 3, with_interval=False),
        ]
        columns += [cells for cells_here, _ in parts for cells in cells_here]
        formats.append([form for _, form in parts])
    rows = iter(_transposed(columns))
    return {
        "datasets": [f"{display(run['run']['dataset'])}: {size([run])}" for run in runs],
        "formats": formats,
        "blocks": [
            {
                "title": GROUPS.get(group, ""),
                "reason": None,
                "rows": [next(rows) for _ in names],
            }
            for group, names in named.items()
            if names
        ],
        "reason": None if runs else lacking(results),
    }


def _learned(results: Results, name: str) -> str:
    """What the first decoder's mask of a condition was learned with, in a few words."""
    spec = results.study["conditions"][name]
    sections = [spec.get("position"), spec.get("mask", {}).get("profile")]
    masks = [s["mask"] for s in sections if isinstance(s, Mapping) and s["kind"] == "learned"]
    if not masks:
        return "--"
    learned = {mask["mask"]: mask for run in headline(results) for mask in run["masks"]}
    section = results.study["masks"][masks[0]]
    method = section["method"]
    facts = mask_facts(Mask.model_validate(learned[masks[0]])) if masks[0] in learned else {}
    if method == "slope" and isinstance(facts.get("slope"), Number):
        return f"slope {number(facts['slope'])}"
    if isinstance(facts.get("parameters"), Number):
        return f"{number(facts['parameters'])} parameters"
    if section.get("placebo"):
        return f"means, {display(section['placebo'])}"
    return {"distilled": "averages", "closed_form": "means"}.get(method, method)


def recovery_table(results: Results) -> Recovery:
    """Share of the lost log-perplexity that masks recover, by data set and decoder."""
    study = results.study["study"]
    decoders = keys.decoders(results.study)
    facts = {
        (run["run"]["model"], run["run"]["dataset"]): condition_facts(run)
        for run in results.of("conditions")
    }
    specs = results.study["conditions"]
    names = [
        name
        for name, spec in specs.items()
        if group_of(spec) == "learned" or semantics_of(spec) == "alibi"
    ]
    blocks, whole = [], []
    for dataset in study["datasets"]:
        places = [facts.get((model, dataset), {}) for model in decoders]
        shares = [[place.get(name, {}).get("recovered") for place in places] for name in names]
        kept = [(n, s) for n, s in zip(names, shares, strict=True) if any(map(number_of, s))]
        lost = [s for row in shares for s in row if isinstance(s, NotRun)]
        reason = escape(lost[0].reason) if lost else "no mask in this study"
        sized = [
            run
            for run in results.of("conditions")
            if run["run"]["dataset"] == dataset and run["run"]["model"] in decoders
        ]
        title = f"{display(dataset)}: {size(sized)}" if kept else display(dataset)
        blocks.append((title, len(kept), None if kept else reason))
        whole += kept
    columns, formats = (
        [[display(n) for n, _ in whole], [_learned(results, n) for n, _ in whole]],
        [],
    )
    for place in range(len(decoders)):
        cells, form = _columns([shares[place] for _, shares in whole], 3)
        columns += cells
        formats.append(form)
    seeds = [decoders.index(name) for name in keys.seeds(results.study)]
    has_spread = len(seeds) > 1
    if has_spread:
        of_seeds = [[shares[place] for place in seeds] for _, shares in whole]
        spreads = [keys.spread([s for s in shares if s is not None]) for shares in of_seeds]
        for key in ("mean", "sd"):
            cells, form = _columns([spread[key] for spread in spreads], 3, with_interval=False)
            columns += cells
            formats.append(form)
    rows = iter(_transposed(columns))
    return {
        "decoders": [display(name) for name in decoders],
        "formats": formats,
        "has_spread": has_spread,
        "blocks": [
            {
                "title": title,
                "reason": reason,
                "rows": [next(rows) for _ in range(count)],
            }
            for title, count, reason in blocks
        ],
        "reason": None if decoders else lacking(results),
    }


def anisotropy_table(results: Results) -> Grid:
    """What the cosine of the last hidden state is without what all tokens share."""
    runs = [
        run
        for run in results.of("similarity")
        if run["run"]["condition"] != keys.INTACT and run["status"] == "measured"
    ]
    facts = [numbers_of(run) for run in runs]
    columns = [
        [display(run["run"][part]) for run in runs] for part in ("model", "dataset", "condition")
    ]
    formats = []
    for name in ("cosine", "rescaled", "centred", "standardised", "cka", "retrieval"):
        entries = [values[f"last.{name}"] for values in facts]
        with_interval = name in ("centred", "standardised", "retrieval")
        cells, form = _columns(entries, 3, with_interval)
        columns += cells
        formats.append(form)
    return {"rows": _transposed(columns), "formats": formats}


def norms_table(results: Results) -> Grid:
    """How much of the position norms tell, and what it costs to take them away."""
    runs = results.of("norms")
    facts = {
        (measurement["run"]["model"], measurement["run"]["dataset"]): condition_facts(measurement)
        for measurement in results.of("conditions")
    }
    columns = [[display(run["run"][part]) for run in runs] for part in ("model", "dataset")]
    formats = []
    for key in norms.QUANTITIES.names:
        cells, form = column([number_of(numbers_of(run).get(key)) for run in runs], 2)
        columns.append(cells)
        formats.append(form)
    for condition in ("unit_norm", "scaled"):
        here = [facts.get((run["run"]["model"], run["run"]["dataset"]), {}) for run in runs]
        here = [by_condition.get(condition, {}) for by_condition in here]
        cells, form = _columns([entry.get("last.cosine") for entry in here], 3, with_interval=False)
        columns += cells
        formats.append(form)
        cells, form = _columns([entry.get("delta_nll") for entry in here], 3)
        columns += cells
        formats.append(form)
    return {"rows": _transposed(columns), "formats": formats}


def _level(level: Mapping[str, Any]) -> dict[str, Number]:
    """Perplexity and bits per byte of a reference level; what is exact has no interval."""
    perplexity = Number(**level["perplexity"])
    if perplexity.high - perplexity.low < 1e-9 * perplexity.value:
        perplexity = Number(perplexity.value)
    return {"perplexity": perplexity, "bits_per_byte": Number(**level["bits_per_byte"])}


def reference_table(results: Results) -> Reference:
    """Perplexity of the first decoder beside that of models without a network."""
    model = keys.model_roles(results.study)["decoder"]
    runs = [
        measurement
        for measurement in results.of("reference")
        if measurement["run"]["model"] == model
    ]
    levels = {
        run["run"]["dataset"]: {level["level"]: level for level in run["levels"]} for run in runs
    }
    by_dataset: dict[str, dict[str, dict[str, Entry]]] = {dataset: {} for dataset in levels}
    for run in results.of("perplexity"):
        names = run["run"]
        if names["model"] == model and run["status"] == "measured":
            by_dataset[names["dataset"]][names["condition"]] = numbers_of(run)
    sizes = {run["run"]["dataset"]: size([run]) for run in runs if run["status"] == "measured"}
    shown = list(dict.fromkeys(name for here in levels.values() for name in here))
    conditions = list(keys.HEADLINE_CONDITIONS) if any(by_dataset.values()) else []
    columns, formats = [[*map(escape, shown), *map(display, conditions)]], []
    for dataset in levels:
        entries = []
        for name in shown:
            level = levels[dataset].get(name)
            entries.append({} if level is None else _level(level))
        entries += [by_dataset.get(dataset, {}).get(name, {}) for name in conditions]
        perplexities, form = _columns([entry.get("perplexity") for entry in entries])
        bits, bits_form = _columns([e.get("bits_per_byte") for e in entries], 3, False)
        columns += [*perplexities, *bits]
        formats.append([form, bits_form])
    rows = _transposed(columns) if runs else []
    reasons = dict.fromkeys(run["reason"] for run in runs if run["reason"])
    return {
        "datasets": [
            f"{display(dataset)}: {sizes[dataset]}" if dataset in sizes else display(dataset)
            for dataset in levels
        ],
        "formats": formats,
        "levels": rows[: len(shown)],
        "conditions": rows[len(shown) :],
        "model": display(model) if model else "",
        "reason": escape("; ".join(reasons)) if runs else lacking(results),
    }


TABLES = {
    "conditions": conditions_table,
    "recovery": recovery_table,
    "anisotropy": anisotropy_table,
    "norms": norms_table,
    "reference": reference_table,
}
