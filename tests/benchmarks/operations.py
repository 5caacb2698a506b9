"""Where the time of a forward pass goes, by kind of operation.

``python -m tests.benchmarks.operations`` runs both models of the benchmark in either precision
under PyTorch's profiler, and writes docs/operations-benchmark.json and the table of the page on
speed.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import tempfile
from pathlib import Path
from typing import Annotated

import torch
import typer

from posenc.report.machines import described, machine
from tests.benchmarks import pages
from tests.benchmarks.models import MODELS, documents_of, make
from tests.benchmarks.ours import Ours
from tests.benchmarks.peers import apart
from tests.copies import ROOT

RECORD = ROOT / "docs/operations-benchmark.json"
KINDS = {
    "products with weights": ("linear_pointwise", "addmm", "mm", "linear"),
    "attention": ("bmm", "baddbmm", "softmax", "triu"),
    "normalisation": ("layer_norm", "rms_norm", "pow", "sum", "mean", "rsqrt"),
    "copies": ("copy", "cat", "clone", "index_select", "to"),
    "additions and multiplications": ("add", "mul", "neg", "gelu", "silu", "div", "sub"),
}
"""By kind, names of operations as PyTorch has them, without their leading and trailing marks."""
OTHERS = "others"


def kind_of(operation: str) -> str:
    """The kind of an operation of the profiler.

    Examples
    --------
    >>> kind_of("mkldnn::_linear_pointwise"), kind_of("aten::add_"), kind_of("aten::empty")
    ('products with weights', 'additions and multiplications', 'others')
    """
    name = operation.split("::")[-1].strip("_").removeprefix("native_")
    for kind, names in KINDS.items():
        if name in names or (kind == "attention" and name.startswith("scaled_dot_product")):
            return kind
    return OTHERS


def measured(name: str, fast: bool, documents: int, threads: int, folder: Path) -> dict:
    """Seconds of a forward pass over all documents, by kind."""
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(threads)
    facts = make(name, folder)
    texts = documents_of(documents, facts["vocabulary"])
    ours = Ours(folder, MODELS[name][0], fast)
    ours.forward(texts)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        ours.forward(texts)
    seconds = dict.fromkeys([*KINDS, OTHERS], 0.0)
    for event in profiled.key_averages():
        seconds[kind_of(event.key)] += event.self_cpu_time_total / 1e6
    return seconds


def table(record: dict) -> str:
    """Shares of the time, in per cent: medians of rounds, in Markdown."""
    shares = [
        {
            kind: statistics.median(100 * run[kind] / sum(run.values()) for run in row["runs"])
            for kind in row["runs"][0]
        }
        for row in record["rows"]
    ]
    columns = [f"{row['model']}, {row['precision']}" for row in record["rows"]]
    lines = [
        f"{described(record['made_on'])}; {record['threads']} threads, {record['documents']} "
        f"documents, {record['rounds']} rounds. Per cent of the time of a forward pass:",
        "",
        f"| operations | {' | '.join(columns)} |",
        "| --- " * (1 + len(columns)) + "|",
    ]
    for kind in shares[0]:
        lines.append(f"| {kind} | {' | '.join(f'{share[kind]:.0f}' for share in shares)} |")
    return "\n".join(lines) + "\n"


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    documents: Annotated[int, typer.Option(min=1)] = 6,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    dry: Annotated[bool, typer.Option("--dry", help="print the table alone")] = False,
) -> None:
    """Measure, print the table, and write the record and the page."""
    rows = [
        {"model": name, "precision": precision, "runs": []}
        for name, precision in itertools.product(MODELS, ("exact", "fast"))
    ]
    for _ in range(rounds):
        for row in rows:
            with tempfile.TemporaryDirectory() as folder:
                call = functools.partial(
                    measured, row["model"], row["precision"] == "fast", documents, threads,
                    Path(folder),
                )  # fmt: skip
                seconds = apart(call)
            row["runs"].append({kind: seconds[kind] for kind in [*KINDS, OTHERS]})
    record = {"made_on": machine(), "rounds": rounds, "documents": documents, "threads": threads,
              "rows": rows}  # fmt: skip
    print(table(record))
    if not dry:
        pages.keep(record, RECORD, operations=table(record))


if __name__ == "__main__":
    typer.run(main)
