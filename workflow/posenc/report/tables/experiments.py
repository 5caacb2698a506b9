"""Tables of the experiments that train (A6, D3, D5, E3) and of scaled scores (D4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, estimate, percent
from posenc.experiments.memory_networks.quantities import network_name
from posenc.experiments.tokenizers.quantities import tokenizers
from posenc.report.records import Results
from posenc.report.tables.cells import display, escape
from posenc.report.tables.positions import Columns, Layout

POSITIONS = {"intact": "with", "zero": "without"}
METHODS = {"frozen": "frozen", "fine_tuned": "fine-tuned"}
KINDS = {"bpe": "BPE", "unigram": "Unigram", "character": "characters", "whitespace": "words"}


def _measured(results: Results, kind: str) -> tuple[list[Mapping], list[tuple[str, str]]]:
    """Measurements of a kind, and those that were not run with their reasons."""
    runs = results.of(kind)
    others = [(kind, run["reason"]) for run in runs if run["status"] != "measured"]
    return [run for run in runs if run["status"] == "measured"], others


def _absent(kind: str) -> list[tuple[str, str]]:
    return [(kind, "no such measurement in this study")]


def _mean(entry: Mapping[str, Any] | None) -> Entry:
    return percent(entry)


def downstream_table(results: Results) -> Layout:
    """Accuracy of classifiers by task, method and positions, over seeds."""
    runs, others = _measured(results, "downstream")
    rows = [(run, result) for run in runs for result in run["results"]]
    table = Columns()
    table.words("Model", [display(run["run"]["model"]) for run, _ in rows])
    table.words("Task", [display(result["task"]) for _, result in rows])
    table.words("Encoder", [METHODS[result["method"]] for _, result in rows])
    table.words("Positions", [POSITIONS[result["positions"]] for _, result in rows])
    table.group("", 0)
    since = len(table.heads)
    table.numbers("Accuracy", [_mean(result["accuracy"]) for _, result in rows], 1, True)
    table.numbers("Shuffled", [_mean(result["accuracy_shuffled"]) for _, result in rows], 1)
    table.group(r"\unit{\percent} of the test documents", since)
    since = len(table.heads)
    sensitivity = [result["order_sensitivity"] for _, result in rows]
    entries = [
        estimate(entry) if entry["status"] == "measured" else NotRun(entry["reason"])
        for entry in sensitivity
    ]
    table.numbers("Sensitivity", entries, 2, True)
    table.group("To the order of words", since)
    return table.made(others if runs or others else _absent("downstream"))


def tokenizers_table(results: Results) -> Layout:
    """Vocabulary, fertility and bits a byte of each tokenizer."""
    runs, others = _measured(results, "tokenizers")
    rows = [tokenizer for run in runs for tokenizer in run["tokenizers"]]
    numbers = {place: entry for run in runs for place, entry in tokenizers(run).items()}

    def entries(key: str) -> list[Entry]:
        return [
            numbers[tokenizer["dataset"], f"{tokenizer['normalization']}.{tokenizer['kind']}.{key}"]
            for tokenizer in rows
        ]

    table = Columns()
    table.words("Data set", [display(tokenizer["dataset"]) for tokenizer in rows])
    table.words("Form", [tokenizer["normalization"] for tokenizer in rows])
    table.words("Tokenizer", [KINDS[tokenizer["kind"]] for tokenizer in rows])
    table.numbers("Vocabulary", entries("vocabulary"))
    table.numbers("Tokens a byte", entries("tokens_per_byte"), 3)
    table.numbers("Unknown bytes", entries("unknown"), 3)
    table.numbers("Round trips", entries("round_trip"), 2)
    table.group("", 0)
    since = len(table.heads)
    table.numbers("All", entries("bits_per_byte"), 3, True)
    table.numbers("Spelling", entries("spelling"), 3)
    table.numbers("Original", entries("bits_per_original_byte"), 3)
    table.group("Bits a byte", since)
    return table.made(others)


def pretraining_table(results: Results) -> Layout:
    """Accuracy of each cell of GPT-1's ablation, over seeds."""
    runs, others = _measured(results, "pretraining")
    rows = [cell for run in runs for cell in run["cells"]]
    table = Columns()
    table.words(
        "Network",
        [escape({"lstm": "LSTM"}.get(cell["architecture"], "Transformer")) for cell in rows],
    )
    table.words("Pre-trained", ["yes" if cell["pretrained"] else "no" for cell in rows])
    table.words("Auxiliary loss", ["yes" if cell["auxiliary"] else "no" for cell in rows])
    table.numbers(
        r"Accuracy (\unit{\percent})", [_mean(cell["accuracy"]) for cell in rows], 1, True
    )
    table.group("", 0)
    return table.made(others)


def memory_networks_table(results: Results) -> Layout:
    """Test errors of each network on each task, over seeds."""
    runs, others = _measured(results, "memory_networks")
    tasks = [entry["task"] for run in runs for entry in run["tasks"]]
    by_name: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        for cell in run["cells"]:
            name = network_name(cell["network"], cell["hops"], cell["positions"])
            by_name.setdefault(name, {})[cell["task"]] = cell
    table = Columns()
    networks: Sequence[Mapping] = [next(iter(cells.values())) for cells in by_name.values()]
    table.words("Network", [display(network["network"]) for network in networks])
    table.words("Hops", [str(network["hops"]) if network["hops"] else "--" for network in networks])
    seen = {True: "yes", False: "no", None: "--"}
    table.words("Word order", [seen[network["positions"]] for network in networks])
    table.group("", 0)
    since = len(table.heads)
    for task in tasks:
        entries = [
            _mean(cells[task]["error"]) if task in cells else None for cells in by_name.values()
        ]
        table.numbers(display(task), entries, 1, True)
    table.group(r"Error, \unit{\percent}", since)
    return table.made(others)


def scaling_table(results: Results) -> Layout:
    """Scores, largest probability and Jacobian by d_k, raw and scaled."""
    runs, others = _measured(results, "scaling")
    rows = [dimension for run in runs for dimension in run["dimensions"]]
    table = Columns()
    table.numbers("$d_k$", [Number(dimension["d_k"]) for dimension in rows])
    table.group("", 0)
    for title, kind in (("Raw", "raw"), ("Scaled", "scaled")):
        since = len(table.heads)
        for head, key, decimals in (
            ("Variance", "variance", 2),
            ("Largest", "largest", 3),
            ("Jacobian", "frobenius", 4),
        ):
            table.numbers(head, [estimate(dimension[kind][key]) for dimension in rows], decimals)
        table.group(title, since)
    return table.made(others)


TABLES = {
    "downstream": downstream_table,
    "tokenizers": tokenizers_table,
    "pretraining": pretraining_table,
    "memory_networks": memory_networks_table,
    "scaling": scaling_table,
}
