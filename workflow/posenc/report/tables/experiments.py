"""Tables of the experiments that train (A6, D3, D5, E3) and of scaled scores (D4)."""

from __future__ import annotations

from posenc.artifacts.numbers import Entry, NotRun, Number
from posenc.artifacts.printing import Printed, number
from posenc.artifacts.results import Interval
from posenc.artifacts.runs import R, Run, of_kind
from posenc.experiments.downstream.result import Downstream, OrderSensitivity
from posenc.experiments.memory_networks.quantities import network_name
from posenc.experiments.memory_networks.result import Cell, MemoryNetworks
from posenc.experiments.pretraining.result import Ablation
from posenc.experiments.tokenizers.quantities import tokenizers
from posenc.experiments.tokenizers.result import Comparison
from posenc.measurements.scaling.result import ByDimension
from posenc.report.records import Results
from posenc.report.tables.cells import display
from posenc.report.tables.positions import Columns, Layout

POSITIONS = {"intact": "with", "zero": "without"}
METHODS = {"frozen": "frozen", "fine_tuned": "fine-tuned"}
KINDS = {"bpe": "BPE", "unigram": "Unigram", "character": "characters", "whitespace": "words"}


def _measured(
    results: Results, kind: str, result: type[R]
) -> tuple[list[Run[R]], list[tuple[str, str]]]:
    """Measured runs of a kind, and what was not run with its reasons."""
    runs = of_kind(results.measurements, kind, result)
    others = [(kind, run.reason) for run in runs if run.measured is None]
    return [run for run in runs if run.measured is not None], others


def _percent(share: Interval) -> Entry:
    return number(share, Printed(percent=True))


def downstream_table(results: Results) -> Layout:
    """Accuracy of classifiers by task, method and positions, over seeds."""
    runs, others = _measured(results, "downstream", Downstream)
    if not (runs or others):
        others = [("downstream", "no such measurement in this study")]
    rows = [(run.model, entry) for run in runs for entry in run.result.results]
    entries = [entry for _, entry in rows]
    table = Columns()
    table.words("Model", [display(model) for model, _ in rows])
    table.words("Task", [display(entry.task) for entry in entries])
    table.words("Encoder", [METHODS[entry.method] for entry in entries])
    table.words("Positions", [POSITIONS[entry.positions] for entry in entries])
    table.group("", 0)
    since = len(table.heads)
    table.numbers("Accuracy", [_percent(entry.accuracy) for entry in entries], 1, True)
    table.numbers("Shuffled", [_percent(entry.accuracy_shuffled) for entry in entries], 1)
    table.group(r"\unit{\percent} of the test documents", since)
    since = len(table.heads)
    sensitivity = [
        number(score) if isinstance(score, OrderSensitivity) else NotRun(score.reason)
        for score in (entry.order_sensitivity for entry in entries)
    ]
    table.numbers("Sensitivity", sensitivity, 2, True)
    table.group("To the order of words", since)
    return table.made(others)


def tokenizers_table(results: Results) -> Layout:
    """Vocabulary, fertility and bits a byte of each tokenizer."""
    runs, others = _measured(results, "tokenizers", Comparison)
    rows = [tokenizer for run in runs for tokenizer in run.result.tokenizers]
    numbers = {place: entry for run in runs for place, entry in tokenizers(run.result).items()}

    def entries(key: str) -> list[Entry]:
        return [numbers[row.dataset, f"{row.normalization}.{row.kind}.{key}"] for row in rows]

    table = Columns()
    table.words("Data set", [display(row.dataset) for row in rows])
    table.words("Form", [row.normalization for row in rows])
    table.words("Tokenizer", [KINDS[row.kind] for row in rows])
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
    runs, others = _measured(results, "pretraining", Ablation)
    cells = [cell for run in runs for cell in run.result.cells]
    table = Columns()
    table.words(
        "Network", ["LSTM" if cell.architecture == "lstm" else "Transformer" for cell in cells]
    )
    table.words("Pre-trained", ["yes" if cell.pretrained else "no" for cell in cells])
    table.words("Auxiliary loss", ["yes" if cell.auxiliary else "no" for cell in cells])
    accuracies = [_percent(cell.accuracy) for cell in cells]
    table.numbers(r"Accuracy (\unit{\percent})", accuracies, 1, True)
    table.group("", 0)
    return table.made(others)


def memory_networks_table(results: Results) -> Layout:
    """Test errors of each network on each task, over seeds."""
    runs, others = _measured(results, "memory_networks", MemoryNetworks)
    tasks = [entry.task for run in runs for entry in run.result.tasks]
    by_name: dict[str, dict[str, Cell]] = {}
    for run in runs:
        for cell in run.result.cells:
            name = network_name(cell.network, cell.hops, cell.positions)
            by_name.setdefault(name, {})[cell.task] = cell
    table = Columns()
    networks = [next(iter(cells.values())) for cells in by_name.values()]
    table.words("Network", [display(network.network) for network in networks])
    table.words("Hops", [str(network.hops) if network.hops else "--" for network in networks])
    seen = {True: "yes", False: "no", None: "--"}
    table.words("Word order", [seen[network.positions] for network in networks])
    table.group("", 0)
    since = len(table.heads)
    for task in tasks:
        errors = [
            _percent(cells[task].error) if task in cells else None for cells in by_name.values()
        ]
        table.numbers(display(task), errors, 1, True)
    table.group(r"Error, \unit{\percent}", since)
    return table.made(others)


def scaling_table(results: Results) -> Layout:
    """Scores, largest probability and Jacobian by d_k, raw and scaled."""
    runs, others = _measured(results, "scaling", ByDimension)
    rows = [dimension for run in runs for dimension in run.result.dimensions]
    table = Columns()
    table.numbers("$d_k$", [Number(dimension.d_k) for dimension in rows])
    table.group("", 0)
    for title, kind in (("Raw", "raw"), ("Scaled", "scaled")):
        since = len(table.heads)
        for head, key, decimals in (
            ("Variance", "variance", 2),
            ("Largest", "largest", 3),
            ("Jacobian", "frobenius", 4),
        ):
            values = [number(getattr(getattr(row, kind), key)) for row in rows]
            table.numbers(head, values, decimals)
        table.group(title, since)
    return table.made(others)


TABLES = {
    "downstream": downstream_table,
    "tokenizers": tokenizers_table,
    "pretraining": pretraining_table,
    "memory_networks": memory_networks_table,
    "scaling": scaling_table,
}
