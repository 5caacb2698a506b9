"""Tables of the experiments that train (A6, D3, D5, E3) and of scaled scores (D4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, estimate, percent
from posenc.experiments.memory_networks.quantities import network_name
from posenc.experiments.tokenizers.quantities import tokenizers
from posenc.report.records import Results
from posenc.report.tables.cells import display, escape
from posenc.report.tables.positions import Columns

POSITIONS = {"intact": "with", "zero": "without"}
METHODS = {"frozen": "frozen", "fine_tuned": "fine-tuned"}
KINDS = {"bpe": "BPE", "unigram": "Unigram", "character": "characters", "whitespace": "words"}


def _measured(results: Results, kind: str) -> tuple[list[Mapping], list[tuple[str, str]]]:
    """Measurements of a kind, and those that were not run with their reasons."""
    found = results.of(kind)
    others = [(kind, one["reason"]) for one in found if one["status"] != "measured"]
    return [one for one in found if one["status"] == "measured"], others


def _absent(kind: str) -> list[tuple[str, str]]:
    return [(kind, "no such measurement in this study")]


def _mean(entry: Mapping[str, Any] | None) -> Entry:
    return percent(entry)


def downstream_table(results: Results) -> dict[str, Any]:
    """Accuracy of classifiers by task, method and positions, over seeds."""
    runs, others = _measured(results, "downstream")
    rows = [(run, one) for run in runs for one in run["results"]]
    made = Columns()
    made.words("Model", [display(run["run"]["model"]) for run, _ in rows])
    made.words("Task", [display(one["task"]) for _, one in rows])
    made.words("Encoder", [METHODS[one["method"]] for _, one in rows])
    made.words("Positions", [POSITIONS[one["positions"]] for _, one in rows])
    made.group("", 0)
    since = len(made.heads)
    made.numbers("Accuracy", [_mean(one["accuracy"]) for _, one in rows], 1, True)
    made.numbers("Shuffled", [_mean(one["accuracy_shuffled"]) for _, one in rows], 1)
    made.group(r"\unit{\percent} of the test documents", since)
    since = len(made.heads)
    sensitivity = [one["order_sensitivity"] for _, one in rows]
    entries = [
        estimate(one) if one["status"] == "measured" else NotRun(one["reason"])
        for one in sensitivity
    ]
    made.numbers("Sensitivity", entries, 2, True)
    made.group("To the order of words", since)
    return made.made(others if runs or others else _absent("downstream"))


def tokenizers_table(results: Results) -> dict[str, Any]:
    """Vocabulary, fertility and bits a byte of each tokenizer."""
    runs, others = _measured(results, "tokenizers")
    rows = [one for run in runs for one in run["tokenizers"]]
    found = {place: entry for run in runs for place, entry in tokenizers(run).items()}

    def entries(key: str) -> list[Entry]:
        return [
            found[one["dataset"], f"{one['normalization']}.{one['kind']}.{key}"] for one in rows
        ]

    made = Columns()
    made.words("Data set", [display(one["dataset"]) for one in rows])
    made.words("Form", [one["normalization"] for one in rows])
    made.words("Tokenizer", [KINDS[one["kind"]] for one in rows])
    made.numbers("Vocabulary", entries("vocabulary"))
    made.numbers("Tokens a byte", entries("tokens_per_byte"), 3)
    made.numbers("Unknown bytes", entries("unknown"), 3)
    made.numbers("Round trips", entries("round_trip"), 2)
    made.group("", 0)
    since = len(made.heads)
    made.numbers("All", entries("bits_per_byte"), 3, True)
    made.numbers("Spelling", entries("spelling"), 3)
    made.numbers("Original", entries("bits_per_original_byte"), 3)
    made.group("Bits a byte", since)
    return made.made(others)


def pretraining_table(results: Results) -> dict[str, Any]:
    """Accuracy of each cell of GPT-1's ablation, over seeds."""
    runs, others = _measured(results, "pretraining")
    rows = [one for run in runs for one in run["cells"]]
    made = Columns()
    made.words(
        "Network",
        [escape({"lstm": "LSTM"}.get(one["architecture"], "Transformer")) for one in rows],
    )
    made.words("Pre-trained", ["yes" if one["pretrained"] else "no" for one in rows])
    made.words("Auxiliary loss", ["yes" if one["auxiliary"] else "no" for one in rows])
    made.numbers(r"Accuracy (\unit{\percent})", [_mean(one["accuracy"]) for one in rows], 1, True)
    made.group("", 0)
    return made.made(others)


def memory_networks_table(results: Results) -> dict[str, Any]:
    """Test errors of each network on each task, over seeds."""
    runs, others = _measured(results, "memory_networks")
    tasks = [entry["task"] for run in runs for entry in run["tasks"]]
    by_name: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        for one in run["cells"]:
            by_name.setdefault(network_name(one), {})[one["task"]] = one
    made = Columns()
    ones: Sequence[Mapping] = [next(iter(cells.values())) for cells in by_name.values()]
    made.words("Network", [display(one["network"]) for one in ones])
    made.words("Hops", [str(one["hops"]) if one["hops"] else "--" for one in ones])
    seen = {True: "yes", False: "no", None: "--"}
    made.words("Word order", [seen[one["positions"]] for one in ones])
    made.group("", 0)
    since = len(made.heads)
    for task in tasks:
        entries = [
            _mean(cells[task]["error"]) if task in cells else None for cells in by_name.values()
        ]
        made.numbers(display(task), entries, 1, True)
    made.group(r"Error, \unit{\percent}", since)
    return made.made(others)


def scaling_table(results: Results) -> dict[str, Any]:
    """Scores, largest probability and Jacobian by d_k, raw and scaled."""
    runs, others = _measured(results, "scaling")
    rows = [one for run in runs for one in run["dimensions"]]
    made = Columns()
    made.numbers("$d_k$", [Number(one["d_k"]) for one in rows])
    made.group("", 0)
    for title, kind in (("Raw", "raw"), ("Scaled", "scaled")):
        since = len(made.heads)
        for head, key, decimals in (
            ("Variance", "variance", 2),
            ("Largest", "largest", 3),
            ("Jacobian", "frobenius", 4),
        ):
            made.numbers(head, [estimate(one[kind][key]) for one in rows], decimals)
        made.group(title, since)
    return made.made(others)


TABLES = {
    "downstream": downstream_table,
    "tokenizers": tokenizers_table,
    "pretraining": pretraining_table,
    "memory_networks": memory_networks_table,
    "scaling": scaling_table,
}
