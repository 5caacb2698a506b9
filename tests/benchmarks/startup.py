"""How much of a finished study's job time goes into starting programs rather than into work.

``python -m tests.benchmarks.startup`` in a finished checkout: the seconds that Snakemake recorded
for each job (``logs/benchmarks``), beside the seconds that the same program takes to start and
import what it needs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

IMPORTED_LATER = {
    "capture": "import torch, transformers, posenc.capture, posenc.interventions; "
    "from transformers import BertModel, GPT2LMHeadModel",
    "masks": "import torch, transformers, posenc.masks; "
    "from transformers import BertModel, GPT2LMHeadModel",
    "evaluate": "import torch, transformers, posenc.evaluation; "
    "from transformers import BertModel, GPT2LMHeadModel",
    "train": "import torch, transformers, posenc.training; "
    "from transformers import GPT2LMHeadModel",
}
"""What these import only once they know that there is something to do."""
DOCUMENTS = ("paper", "slides")


def seconds(program: str, repeats: int = 3) -> float:
    """Median wall time of a Python program."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def module(rule: str, record: Path) -> str:
    """The module that a job runs."""
    if rule == "figure":
        return f"posenc.figures.{record.stem}"
    return f"posenc.steps.{'latex' if rule in DOCUMENTS else rule}"


def main() -> None:
    """Print a table, in Markdown."""
    started: dict[str, list] = {}
    for record in sorted(Path("logs/benchmarks").rglob("*.tsv")):
        rule = record.relative_to("logs/benchmarks").parts[0].removesuffix(".tsv")
        header, row = (line.split("\t") for line in record.read_text().splitlines()[:2])
        name = module(rule, record)
        program = f"import {name}; {IMPORTED_LATER.get(rule, '')}"
        ran, start = started.setdefault(rule, [0, 0.0, 0.0]), seconds(program)
        ran[0] += 1
        ran[1] += float(row[header.index("s")])
        ran[2] += start
    print("| rule | jobs | seconds | of which start-up |\n| --- | --- | --- | --- |")
    for rule, (jobs, ran, start) in started.items():
        print(f"| {rule} | {jobs} | {ran:.1f} | {start:.1f} |")
    ran, start = (sum(values[n] for values in started.values()) for n in (1, 2))
    print(f"| all | | {ran:.1f} | {start:.1f} ({100 * start / ran:.0f} %) |")


if __name__ == "__main__":
    main()
