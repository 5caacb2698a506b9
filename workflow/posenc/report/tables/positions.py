"""Rows of the tables of position embeddings, reading back, probes and heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from posenc.artifacts.numbers import Entry, Number
from posenc.artifacts.printing import number
from posenc.artifacts.runs import of_kind
from posenc.measurements.lags.quantities import compared
from posenc.measurements.readback.result import PairsReadBack
from posenc.report import quantities as keys
from posenc.report.readers import numbers_of
from posenc.report.records import Results
from posenc.report.tables.cells import column, display, escape, intervals, number_of

TEMPLATE = "columns"
"""All are laid out by one template, from heads, formats and rows."""

Group = TypedDict("Group", {"title": str, "count": int, "from": int, "to": int})
"""A title over ``count`` columns, from the one with the number ``from`` to that with ``to``."""


class Layout(TypedDict):
    """What the template takes: ``others`` are names, each with why it was not run."""

    template: str
    formats: list[str]
    heads: list[str]
    groups: list[Group]
    rows: list[list[str]]
    others: list[list[str]]


class Columns:
    """A table that is built column by column.

    Attributes
    ----------
    formats
        Of LaTeX's preamble, one a column.
    heads
        One a column.
    groups
        ``(title, columns)``, over the heads; an empty title spans without a line.
    """

    def __init__(self) -> None:
        self.formats: list[str] = []
        self.heads: list[str] = []
        self.groups: list[tuple[str, int]] = []
        self._cells: list[list[str]] = []

    def words(self, head: str, cells: Sequence[str]) -> None:
        """A column of text."""
        self._add("l", head, list(cells))

    def numbers(
        self,
        head: str,
        entries: Sequence[Entry | str | None],
        decimals: int | None = None,
        with_interval: bool = False,
    ) -> None:
        """A column of numbers, or of text in their place; where wanted, one of their intervals."""
        numbers = [number_of(entry) for entry in entries]
        cells, form = column(numbers, decimals)
        cells = [
            f"{{{entry}}}" if isinstance(entry, str) else cell
            for entry, cell in zip(entries, cells, strict=True)
        ]
        self._add(f"S[table-format={form}]", f"{{{head}}}", cells)
        if with_interval:
            self._add("l", "Interval", intervals(numbers, decimals))

    def group(self, title: str, since: int) -> None:
        """Put a title over the columns since a place."""
        self.groups.append((title, len(self.heads) - since))

    def made(self, others: Sequence[tuple[str, str]] = ()) -> Layout:
        """The whole table; each of ``others`` is a name and why it was not run, said once."""
        rows = [list(row) for row in zip(*self._cells, strict=True)]
        edges: list[Group] = []
        start = 1
        for title, count in self.groups:
            edges.append({"title": title, "count": count, "from": start, "to": start + count - 1})
            start += count
        return {
            "template": TEMPLATE, "formats": self.formats, "heads": self.heads, "groups": edges,
            "rows": rows,
            "others": [[display(name), escape(reason)] for name, reason in dict.fromkeys(others)],
        }  # fmt: skip

    def _add(self, form: str, head: str, cells: list[str]) -> None:
        self.formats.append(form)
        self.heads.append(head)
        self._cells.append(cells)


def _split(runs: Sequence[Mapping]) -> tuple[list[Mapping], list[tuple[str, str]]]:
    """Runs that were measured, and the others with their reasons."""
    measured = [run for run in runs if run["status"] == "measured"]
    others = [(run["run"]["model"], run["reason"]) for run in runs if run["status"] != "measured"]
    return measured, others


def _parts(results: Results, kind: str) -> list[tuple[str, str]]:
    """Parts of checkpoints that lack what a measurement needs, with what that is."""
    lacking = keys.not_of_parts(results.study)
    return [(part, why) for (part, own), why in lacking.items() if own == kind]


def positions_table(results: Results) -> Layout:
    """What is read off each table of position embeddings, beside random ones of its shape.

    What was published of others, digit for digit, has rows of its own.
    """
    runs = results.of("position_embeddings")
    theirs = _published(results)
    facts: list[Mapping[str, Entry | str]] = [*map(numbers_of, runs), *theirs.values()]
    names = [*(display(run["subject"]) for run in runs), *theirs]
    table = Columns()
    table.words("Table", names)
    for head, key in (("Rows", "rows"), ("Width", "d_model")):
        table.numbers(head, [values.get(key) for values in facts])
    table.group("", 0)
    for title, key in (
        ("Mean absolute error of the position", "mae"),
        (r"Pairs mistaken, in \unit{\percent}", "order_error"),
    ):
        since = len(table.heads)
        for head, suffix in (("Table", ""), ("SD", "_sd"), ("Random", "_control"),
                             ("SD", "_sd_control")):  # fmt: skip
            table.numbers(head, [values.get(f"{key}{suffix}") for values in facts], 2)
        table.group(title, since)
    since = len(table.heads)
    for count in ("4", "12"):
        table.numbers(count, [values.get(f"first_{count}") for values in facts], 1)
        table.numbers("Random", [values.get(f"first_{count}_control") for values in facts], 1)
    table.group(r"Variance in first, \unit{\percent}", since)
    since = len(table.heads)
    table.numbers("Table", [values.get("toeplitz") for values in facts], 2)
    table.numbers("Random", [values.get("toeplitz_control") for values in facts], 2)
    table.group("Toeplitz share", since)
    return table.made()


def _published(results: Results) -> dict[str, dict[str, Entry | str]]:
    """Published values of tables of positions, by the row's name: what prints each."""
    rows: dict[str, dict[str, Entry | str]] = {}
    for key, value in results.published["values"].items():
        if value.get("table") == "positions":
            name = rf"{escape(value['model'])}, \word{{published}}"
            quantity = value["ours"][0].rpartition(".")[2]
            rows.setdefault(name, {})[quantity] = rf"\published{{{key}}}"
    return rows


def waves_table(results: Results) -> Layout:
    """Frequencies and components of each table, and its last rows."""
    runs = results.of("position_embeddings")
    facts = [numbers_of(run) for run in runs]
    table = Columns()
    table.words("Table", [display(run["subject"]) for run in runs])
    table.group("", 0)
    since = len(table.heads)
    for head, key in (("Table", "frequency"), ("Random", "frequency_control")):
        table.numbers(head, [values[key] for values in facts], 3)
    table.group("Median frequency", since)
    since = len(table.heads)
    table.numbers("Table", [values["correlation"] for values in facts], 2)
    table.numbers("Shuffled", [values["correlation_shuffled"] for values in facts], 2, True)
    table.group("Correlation with waves", since)
    since = len(table.heads)
    for head, key in (("Principal", "explained"), ("Independent", "independent"),
                      ("Shuffled", "explained_shuffled")):  # fmt: skip
        table.numbers(head, [values[key] for values in facts], 2)
    table.group("One component, by waves", since)
    since = len(table.heads)
    for head, key in (("Norm", "norm"), ("Cosine", "cosine"), ("Others", "neighbours"),
                      ("Chance", "chance"), ("Untrained", "untouched")):  # fmt: skip
        table.numbers(
            head, [values[f"last.{key}"] for values in facts], None if key == "untouched" else 2
        )
    table.group("Last row", since)
    return table.made()


def readback_table(results: Results) -> Layout:
    """Share of (token, position) pairs that are read back from noisy sums, by noise."""
    runs = of_kind(results.measurements, "readback", PairsReadBack)
    others = [(run.model, run.reason) for run in runs if run.measured is None]
    others += _parts(results, "readback")
    measured = [(run.model, run.measured) for run in runs if run.measured is not None]
    before = [level for _, result in measured for level in result.before]
    after = [level for _, result in measured for level in result.after]
    table = Columns()
    table.words("Model", [display(model) for model, result in measured for _ in result.before])
    table.numbers("Noise", [Number(level.noise) for level in before], 1)
    table.group("", 0)
    for title, levels in (("Sum", before), ("Sum after layer normalisation", after)):
        since = len(table.heads)
        table.numbers("Both", [number(level.joint.both) for level in levels], 3, True)
        table.numbers("Token", [number(level.joint.token) for level in levels], 3)
        table.numbers("Position", [number(level.joint.position) for level in levels], 3)
        table.group(title, since)
    since = len(table.heads)
    table.numbers("Token", [number(level.alone.token) for level in before], 3)
    table.numbers("Position", [number(level.alone.position) for level in before], 3)
    table.group("Each by itself", since)
    return table.made(others)


def position_heads_table(results: Results) -> Layout:
    """What heads make of positions alone, of models and of parts of checkpoints; with nulls."""
    runs = results.of("position_heads")
    measured = [run for run in runs if run["status"] == "measured"]
    others = [(run["subject"], run["reason"]) for run in runs if run["status"] != "measured"]
    facts = [numbers_of(run) for run in measured]
    table = Columns()
    table.words("Weights", [display(run["subject"]) for run in measured])
    table.numbers("Heads", [values["heads"] for values in facts])
    table.group("", 0)
    nulls = (("Shuffled", "null_shuffled."), ("Gaussian", "null_gaussian."))
    since = len(table.heads)
    for head, key in (("Median", ""), ("Least", ".least"), ("Most", ".most")):
        table.numbers(head, [values[f"distance_share{key}"] for values in facts], 2)
    for head, null in nulls:
        table.numbers(head, [values[f"{null}distance_share"] for values in facts], 2)
    table.group("Share that a mask by distance explains", since)
    since = len(table.heads)
    table.numbers("Table", [values["near.heads"] for values in facts])
    for head, null in nulls:
        table.numbers(head, [values[f"{null}heads"] for values in facts], 1)
    table.group("Heads that look near", since)
    since = len(table.heads)
    table.numbers("Table", [values["near.1.offset"] for values in facts], 2)
    for head, null in nulls:
        table.numbers(head, [values[f"{null}nearest"] for values in facts], 2)
    table.group("Nearest head of layer 0", since)
    since = len(table.heads)
    for head, key in (("Period", "period"), ("Lag", "lag")):
        table.numbers(head, [values[f"waves.{key}"] for values in facts], 1)
    table.numbers("Share", [values["waves.share"] for values in facts], 2)
    for head, null in nulls:
        table.numbers(head, [values[f"{null}waves.share"] for values in facts], 2)
    table.group("Leading pair of waves", since)
    return table.made(others)


def probes_table(results: Results) -> Layout:
    """Errors of the probes of position by run, and of decoders trained with each scheme."""
    runs, others = _split([*results.of("probes"), *results.of("scheme_probes")])
    others += _parts(results, "probes")
    facts = [numbers_of(run) for run in runs]
    table = Columns()
    for head, part in (("Model", "model"), ("Data set", "dataset"), ("Condition", "condition")):
        table.words(head, [display(run["run"][part]) for run in runs])
    table.numbers("Chance", [values["chance"] for values in facts], 1)
    table.group("", 0)
    since = len(table.heads)
    places = (("Embedding", "embedding"), ("Best", "best"), ("Last", "last"))
    for head, place in places:
        entries = [values[f"{place}.ridge"] for values in facts]
        table.numbers(head, entries, 2, with_interval=place == "best")
    table.group("Mean error, linear", since)
    since = len(table.heads)
    for head, place in places:
        table.numbers(head, [values[f"{place}.relu"] for values in facts], 2)
    table.group("One hidden layer", since)
    since = len(table.heads)
    for head, place in places:
        table.numbers(head, [values[f"{place}.order"] for values in facts], 3)
    table.group("Order mistaken, linear", since)
    return table.made(others)


def _head(values: Mapping[str, Entry], name: str) -> str:
    """Layer and head that look most at a place."""
    layer, head = values[f"{name}.layer"], values[f"{name}.head"]
    if isinstance(layer, Number) and isinstance(head, Number):
        return f"{layer.value}.{head.value}"
    return "--"


def heads_table(results: Results) -> Layout:
    """The heads that look most at one place, and how well weights predict where heads look."""
    intact = [
        measurement
        for measurement in results.of("heads")
        if measurement["run"]["condition"] == keys.INTACT
    ]
    runs, others = _split(intact)
    others += _parts(results, "heads")
    facts = [numbers_of(run) for run in runs]
    joined = next(iter(results.of("lags")), {"status": "not run", "reason": ""})
    table = Columns()
    for head, part in (("Model", "model"), ("Data set", "dataset")):
        table.words(head, [display(run["run"][part]) for run in runs])
    table.group("", 0)
    since = len(table.heads)
    for head, key in (("Previous", "previous"), ("Next", "next"), ("Self", "self"),
                      ("First", "first")):  # fmt: skip
        table.numbers(head, [values[key] for values in facts], 3)
        table.words("Head", [_head(values, key) for values in facts])
    table.group("Largest mean mass on one place", since)
    offsets = [compared(joined, [r["run"]["model"]], r["run"]["dataset"]) for r in runs]
    since = len(table.heads)
    table.numbers("Mean", [comparison["profile_mean"] for comparison in offsets], 2, True)
    table.numbers("Peak", [comparison["peak"] for comparison in offsets], 2, True)
    table.numbers("Same", [comparison["agreement"] for comparison in offsets], 2)
    table.numbers("Chance", [comparison["agreement_chance"] for comparison in offsets], 2)
    table.group("Offset: predicted against found", since)
    return table.made(others)


TABLES = {
    "positions": positions_table,
    "waves": waves_table,
    "position_heads": position_heads_table,
    "readback": readback_table,
    "probes": probes_table,
    "heads": heads_table,
}
