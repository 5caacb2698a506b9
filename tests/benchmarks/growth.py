"""How time and memory grow with documents, their length, layers and conditions.

``python -m tests.benchmarks.growth`` measures captures and evaluations of small models with random
weights, each in its own process, in turns, and writes docs/growth-benchmark.json and the table
of the page on speed. Seconds are those of the processor, so that what else runs does not count.
Memory is the most taken beyond the model and the documents; it is measured in runs of its
own, whose arrays go back to the system when they are freed, which takes time but makes it repeat.
"""

from __future__ import annotations

import ctypes
import functools
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from scipy import stats
from tqdm import tqdm

from posenc.artifacts.command import M_MMAP_THRESHOLD
from posenc.report.machines import described, machine
from tests.benchmarks import pages
from tests.benchmarks.ours import Ours
from tests.benchmarks.peers import apart
from tests.copies import ROOT

RECORD = ROOT / "docs/growth-benchmark.json"
BASE = {"documents": 64, "tokens of a document": 128, "layers": 4, "conditions": 1}
SIZES = {
    "documents": [64, 128, 256, 512, 1024],
    "tokens of a document": [32, 64, 128, 256, 512],
    "layers": [2, 4, 8, 16],
    "conditions": [1, 2, 4, 8, 16, 32],
}
"""One of them grows; the others stay as in ``BASE``."""
TASKS = {"capture": list(SIZES)[:-1], "evaluation": list(SIZES)}
VOCABULARY = 2048
CONFIDENCE = 0.95
LARGE = 2**16
"""Bytes of an array that goes back to the system."""


def model(layers: int, folder: Path) -> dict:
    """Save a small decoder."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=512, n_embd=128, n_head=4, n_layer=layers,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(folder)
    return {}


def measured(task: str, sizes: dict[str, int], folder: Path, is_kept: bool) -> dict:
    """Seconds and bytes of a task, after a small one; whether freed memory is kept."""
    torch.set_num_threads(1)
    if not is_kept:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
    rng = np.random.default_rng(0)
    shape = sizes["documents"], sizes["tokens of a document"]
    documents = rng.integers(1, VOCABULARY, shape).tolist()
    ours = Ours(folder, "gpt2", fast=False)
    with tempfile.TemporaryDirectory(dir=folder) as output:
        tasks = {
            "capture": lambda texts, _: ours.capture(texts, Path(output)),
            "evaluation": lambda texts, conditions: ours.conditions(conditions, texts),
        }
        # The same for all sizes: what it leaves behind is not counted.
        tasks[task]([documents[0][: min(SIZES["tokens of a document"])]], 1)
        held, begin = memory(), time.process_time()
        tasks[task](documents, sizes["conditions"])
        seconds = time.process_time() - begin
    return {"seconds": seconds, "beyond": largest() - held}


def memory() -> int:
    """Bytes of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def largest() -> int:
    """The most bytes this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def slope(sizes: list[int], rounds: list[list[float]]) -> tuple[float, float, float]:
    """How a value grows with a size: the exponent of a power law, and its interval.

    Least squares of logarithms over all rounds; the interval is that of the regression.

    Parameters
    ----------
    sizes
        At least three.
    rounds
        A value for each size, round by round.
    """
    x = np.log(np.tile(sizes, len(rounds)))  # [rounds * sizes]
    fit = stats.linregress(x, np.log(np.concatenate(rounds)))
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(x) - 2) * fit.stderr
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


def table(record: dict) -> str:
    """First and last medians, and slopes, in Markdown."""
    base = ", ".join(f"{value} {name}" for name, value in record["base"].items())
    lines = [
        f"{described(record['made_on'])}; {record['rounds']} rounds, one thread. Where they do not "
        f"grow: {base}.",
        "",
        "| task | grows with | from, to | seconds | slope of time | MB | slope of memory |",
        "| --- " * 7 + "|",
    ]
    for row in record["rows"]:
        cells = [row["task"], row["axis"], ends(row["sizes"], ",.0f")]
        for key, unit, form in (("seconds", 1, ".2f"), ("beyond", 1e6, ".1f")):
            values = [[run[key] / unit for run in runs] for runs in row["runs"]]
            medians = [statistics.median(column) for column in zip(*values, strict=True)]
            middle, low, high = slope(row["sizes"], values)
            cells += [ends(medians, form), f"{middle:.2f} [{low:.2f}, {high:.2f}]"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines).replace("-0.00", "0.00") + "\n"


def ends(values: list, form: str) -> str:
    """The first and the last of some values."""
    return f"{values[0]:{form}}, {values[-1]:{form}}"


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    dry: Annotated[bool, typer.Option("--dry", help="print the table alone")] = False,
) -> None:
    """Measure, print the table, and write the record and the page."""
    rows = [
        {"task": task, "axis": axis, "sizes": SIZES[axis], "runs": []}
        for task, axes in TASKS.items()
        for axis in axes
    ]
    record = {"made_on": machine(), "rounds": rounds, "base": BASE, "rows": rows}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for layers in {BASE["layers"], *SIZES["layers"]}:
            apart(functools.partial(model, layers, folder / str(layers)))
        with tqdm(total=2 * rounds * sum(len(row["sizes"]) for row in rows), unit="run") as bar:
            for _ in range(rounds):
                for row in rows:
                    row["runs"].append([])
                    for size in row["sizes"]:
                        sizes = {**BASE, row["axis"]: size}
                        of = folder / str(sizes["layers"])
                        result = {}
                        for key, is_kept in (("seconds", True), ("beyond", False)):
                            call = functools.partial(measured, row["task"], sizes, of, is_kept)
                            result[key] = apart(call)[key]
                            bar.update()
                        row["runs"][-1].append(result)
    print(f"\n{table(record)}")
    if not dry:
        pages.keep(record, RECORD, growth=table(record))


if __name__ == "__main__":
    typer.run(main)
