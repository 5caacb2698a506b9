"""Rows of the tables of position embeddings, reading back, probes and heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.artifacts.numbers import Entry, Number, estimate
from posenc.measurements.lags.quantities import compared
from posenc.report import quantities as keys
from posenc.report.readers import numbers_of
from posenc.report.records import Results
from posenc.report.tables.cells import column, display, escape, intervals

TEMPLATE = "columns"
"""All are laid out by one template, from heads, formats and rows."""


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
        found = [entry if isinstance(entry, Number) else None for entry in entries]
        cells, form = column(found, decimals)
        cells = [
            f"{{{entry}}}" if isinstance(entry, str) else cell
            for entry, cell in zip(entries, cells, strict=True)
        ]
        self._add(f"S[table-format={form}]", f"{{{head}}}", cells)
        if with_interval:
            self._add("l", "Interval", intervals(found, decimals))

    def group(self, title: str, since: int) -> None:
        """Put a title over the columns since a place."""
        self.groups.append((title, len(self.heads) - since))

    def made(self, others: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """What the template takes; ``others`` are a name and the reason why it was not run."""
        rows = [list(row) for row in zip(*self._cells, strict=True)]
        edges, start = [], 1
        for title, count in self.groups:
            edges.append({"title": title, "count": count, "from": start, "to": start + count - 1})
            start += count
        return {
            "template": TEMPLATE, "formats": self.formats, "heads": self.heads, "groups": edges,
            "rows": rows,
            "others": [[display(name), escape(reason)] for name, reason in others],
        }  # fmt: skip

    def _add(self, form: str, head: str, cells: list[str]) -> None:
        self.formats.append(form)
        self.heads.append(head)
        self._cells.append(cells)


def _split(runs: Sequence[Mapping], name: str) -> tuple[list[Mapping], list[tuple[str, str]]]:
    """Those that were measured, and the others with their reasons, each once."""
    measured = [run for run in runs if run["status"] == "measured"]
    others = [(run["run"][name], run["reason"]) for run in runs if run["status"] != "measured"]
    return measured, list(dict.fromkeys(others))


def _parts(results: Results, kind: str) -> list[tuple[str, str]]:
    """Parts of checkpoints that lack what a measurement needs, with what that is."""
    lacking = keys.not_of_parts(results.study)
    return [(part, why) for (part, own), why in lacking.items() if own == kind]


def positions_table(results: Results) -> dict[str, Any]:
    """What is read off each table of position embeddings, beside random ones of its shape.

    What was published of others, digit for digit, has rows of its own.
    """
    runs = results.of("position_embeddings")
    theirs = _published(results)
    found: list[Mapping[str, Entry | str]] = [*map(numbers_of, runs), *theirs.values()]
    names = [*(display(run["subject"]) for run in runs), *theirs]
    made = Columns()
    made.words("Table", names)
    for head, key in (("Rows", "rows"), ("Width", "d_model")):
        made.numbers(head, [one.get(key) for one in found])
    made.group("", 0)
    for title, key in (
        ("Mean absolute error of the position", "mae"),
        (r"Pairs mistaken, in \unit{\percent}", "order_error"),
    ):
        since = len(made.heads)
        for head, suffix in (("Table", ""), ("SD", "_sd"), ("Random", "_control"),
                             ("SD", "_sd_control")):  # fmt: skip
            made.numbers(head, [one.get(f"{key}{suffix}") for one in found], 2)
        made.group(title, since)
    since = len(made.heads)
    for number in ("4", "12"):
        made.numbers(number, [one.get(f"first_{number}") for one in found], 1)
        made.numbers("Random", [one.get(f"first_{number}_control") for one in found], 1)
    made.group(r"Variance in first, \unit{\percent}", since)
    since = len(made.heads)
    made.numbers("Table", [one.get("toeplitz") for one in found], 2)
    made.numbers("Random", [one.get("toeplitz_control") for one in found], 2)
    made.group("Toeplitz share", since)
    return made.made()


def _published(results: Results) -> dict[str, dict[str, Entry | str]]:
    """Published values of tables of positions, by the row's name: what prints each."""
    found: dict[str, dict[str, Entry | str]] = {}
    for key, value in results.published["values"].items():
        if value.get("table") == "positions":
            name = rf"{escape(value['model'])}, \word{{published}}"
            quantity = value["ours"][0].rpartition(".")[2]
            found.setdefault(name, {})[quantity] = rf"\published{{{key}}}"
    return found


def waves_table(results: Results) -> dict[str, Any]:
    """Frequencies and components of each table, and its last rows."""
    runs = results.of("position_embeddings")
    found = [numbers_of(run) for run in runs]
    made = Columns()
    made.words("Table", [display(run["subject"]) for run in runs])
    made.group("", 0)
    since = len(made.heads)
    for head, key in (("Table", "frequency"), ("Random", "frequency_control")):
        made.numbers(head, [one[key] for one in found], 3)
    made.group("Median frequency", since)
    since = len(made.heads)
    made.numbers("Table", [one["correlation"] for one in found], 2)
    made.numbers("Shuffled", [one["correlation_shuffled"] for one in found], 2, True)
    made.group("Correlation with waves", since)
    since = len(made.heads)
    for head, key in (("Principal", "explained"), ("Independent", "independent"),
                      ("Shuffled", "explained_shuffled")):  # fmt: skip
        made.numbers(head, [one[key] for one in found], 2)
    made.group("One component, by waves", since)
    since = len(made.heads)
    for head, key in (("Norm", "norm"), ("Cosine", "cosine"), ("Others", "neighbours"),
                      ("Chance", "chance"), ("Untrained", "untouched")):  # fmt: skip
        made.numbers(head, [one[f"last.{key}"] for one in found], None if key == "untouched" else 2)
    made.group("Last row", since)
    return made.made()


def readback_table(results: Results) -> dict[str, Any]:
    """Share of (token, position) pairs that are read back from noisy sums, by noise."""
    runs, others = _split(results.of("readback"), "model")
    others += _parts(results, "readback")
    rows = [(run, level) for run in runs for level in range(len(run["before"]))]
    made = Columns()
    made.words("Model", [display(run["run"]["model"]) for run, _ in rows])
    made.numbers("Noise", [Number(run["before"][level]["noise"]) for run, level in rows], 1)
    made.group("", 0)
    for title, place in (("Sum", "before"), ("Sum after layer normalisation", "after")):
        since = len(made.heads)
        levels = [run[place][level] for run, level in rows]
        made.numbers("Both", [estimate(one["joint"]["both"]) for one in levels], 3, True)
        for head, what in (("Token", "token"), ("Position", "position")):
            made.numbers(head, [estimate(one["joint"][what]) for one in levels], 3)
        made.group(title, since)
    since = len(made.heads)
    for head, what in (("Token", "token"), ("Position", "position")):
        entries = [estimate(run["before"][level]["alone"][what]) for run, level in rows]
        made.numbers(head, entries, 3)
    made.group("Each by itself", since)
    return made.made(others)


def position_heads_table(results: Results) -> dict[str, Any]:
    """What heads make of positions alone, of models and of parts of checkpoints; with nulls."""
    runs = results.of("position_heads")
    measured = [run for run in runs if run["status"] == "measured"]
    others = [(run["subject"], run["reason"]) for run in runs if run["status"] != "measured"]
    found = [numbers_of(run) for run in measured]
    made = Columns()
    made.words("Weights", [display(run["subject"]) for run in measured])
    made.numbers("Heads", [one["heads"] for one in found])
    made.group("", 0)
    nulls = (("Shuffled", "null_shuffled."), ("Gaussian", "null_gaussian."))
    since = len(made.heads)
    for head, key in (("Median", ""), ("Least", ".least"), ("Most", ".most")):
        made.numbers(head, [one[f"distance_share{key}"] for one in found], 2)
    for head, null in nulls:
        made.numbers(head, [one[f"{null}distance_share"] for one in found], 2)
    made.group("Share that a mask by distance explains", since)
    since = len(made.heads)
    made.numbers("Table", [one["near.heads"] for one in found])
    for head, null in nulls:
        made.numbers(head, [one[f"{null}heads"] for one in found], 1)
    made.group("Heads that look near", since)
    since = len(made.heads)
    made.numbers("Table", [one["near.1.offset"] for one in found], 2)
    for head, null in nulls:
        made.numbers(head, [one[f"{null}nearest"] for one in found], 2)
    made.group("Nearest head of layer 0", since)
    since = len(made.heads)
    for head, key in (("Period", "period"), ("Lag", "lag")):
        made.numbers(head, [one[f"waves.{key}"] for one in found], 1)
    made.numbers("Share", [one["waves.share"] for one in found], 2)
    for head, null in nulls:
        made.numbers(head, [one[f"{null}waves.share"] for one in found], 2)
    made.group("Leading pair of waves", since)
    return made.made(others)


def probes_table(results: Results) -> dict[str, Any]:
    """Errors of the probes of position by run, and of decoders trained with each scheme."""
    runs, others = _split([*results.of("probes"), *results.of("scheme_probes")], "model")
    others += _parts(results, "probes")
    found = [numbers_of(run) for run in runs]
    made = Columns()
    for head, part in (("Model", "model"), ("Data set", "dataset"), ("Condition", "condition")):
        made.words(head, [display(run["run"][part]) for run in runs])
    made.numbers("Chance", [one["chance"] for one in found], 1)
    made.group("", 0)
    since = len(made.heads)
    places = (("Embedding", "embedding"), ("Best", "best"), ("Last", "last"))
    for head, place in places:
        entries = [one[f"{place}.ridge"] for one in found]
        made.numbers(head, entries, 2, with_interval=place == "best")
    made.group("Mean error, linear", since)
    since = len(made.heads)
    for head, place in places:
        made.numbers(head, [one[f"{place}.relu"] for one in found], 2)
    made.group("One hidden layer", since)
    since = len(made.heads)
    for head, place in places:
        made.numbers(head, [one[f"{place}.order"] for one in found], 3)
    made.group("Order mistaken, linear", since)
    return made.made(others)


def _head(found: Mapping[str, Entry], name: str) -> str:
    """Layer and head that look most at a place."""
    layer, head = found[f"{name}.layer"], found[f"{name}.head"]
    if isinstance(layer, Number) and isinstance(head, Number):
        return f"{layer.value}.{head.value}"
    return "--"


def heads_table(results: Results) -> dict[str, Any]:
    """The heads that look most at one place, and how well weights predict where heads look."""
    intact = [one for one in results.of("heads") if one["run"]["condition"] == keys.INTACT]
    runs, others = _split(intact, "model")
    others += _parts(results, "heads")
    found = [numbers_of(run) for run in runs]
    joined = next(iter(results.of("lags")), {"status": "not run", "reason": ""})
    made = Columns()
    for head, part in (("Model", "model"), ("Data set", "dataset")):
        made.words(head, [display(run["run"][part]) for run in runs])
    made.group("", 0)
    since = len(made.heads)
    for head, key in (("Previous", "previous"), ("Next", "next"), ("Self", "self"),
                      ("First", "first")):  # fmt: skip
        made.numbers(head, [one[key] for one in found], 3)
        made.words("Head", [_head(one, key) for one in found])
    made.group("Largest mean mass on one place", since)
    offsets = [compared(joined, [r["run"]["model"]], r["run"]["dataset"]) for r in runs]
    since = len(made.heads)
    made.numbers("Mean", [one["profile_mean"] for one in offsets], 2, True)
    made.numbers("Peak", [one["peak"] for one in offsets], 2, True)
    made.numbers("Same", [one["agreement"] for one in offsets], 2)
    made.numbers("Chance", [one["agreement_chance"] for one in offsets], 2)
    made.group("Offset: predicted against found", since)
    return made.made(others)


TABLES = {
    "positions": positions_table,
    "waves": waves_table,
    "position_heads": position_heads_table,
    "readback": readback_table,
    "probes": probes_table,
    "heads": heads_table,
}
