"""Two models against others on a CPU, as ratios within one run.

``python -m tests.benchmarks.capture`` runs each variant of each task in its own process, in
turns, on the same documents and models of the published sizes with random weights, and prints
medians, ratios against the plain library script, bytes per token, peak memory, and the share of the
machine's own rate of matrix products. With ``--output`` each run is kept as soon as it is there:
the same command goes on where it was stopped, and one with other ``--model`` or ``--task`` adds a
part. TransformerLens and nnsight are installed beside, in a folder that can be kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from tqdm import tqdm

from posenc.report import machines
from tests.benchmarks import pages
from tests.benchmarks.models import ALL, MODELS, OTHERS, documents_of, make

HERE = Path(__file__).parent
PEERS = ("torch==2.13.0", "transformer-lens==4.3.0", "nnsight==0.8.1")
PLAIN, OURS = ("plain float32", "plain bfloat16"), ("ours exact", "ours fast")
TASKS = {
    "capture": (*PLAIN, "transformer_lens", "nnsight", *OURS),
    "two conditions": ("plain float32", *OURS),
    "perplexity": ("plain float32", "one by one", *OURS),
    "forward": (*PLAIN, *OURS),
    "one condition": OURS,
    "thirty conditions": OURS,
    "training": ("plain float32", *OURS),
    "fitting": ("plain float32", *OURS),
}
FORWARD = ("capture", "perplexity", "forward")
"""Tasks that are one forward pass."""
ROWS = 1024
"""Of the products that a model's rate is compared with: tokens of a forward pass."""


def data_of(documents: int, vocabulary: int) -> dict[str, Any]:
    """Documents; sequences with few kinds of tokens, so that a few steps learn something."""
    from tests.benchmarks.peers import FITTING, TRAINING

    rng = np.random.default_rng(0)
    count = TRAINING["steps"] * TRAINING["batch"]
    return {
        "documents": documents_of(documents, vocabulary),
        "sequences": rng.integers(0, 64, (count, 128)).tolist(),
        "fitting": [ids[:128] for ids in documents_of(FITTING["steps"] * FITTING["batch"], 64)],
    }


def peers_python(folder: Path) -> str:
    """A Python that has the peers, installed on first use."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return str(python)


def product_rates(inputs: int, outputs: int, threads: int) -> dict[str, float]:
    """Floating-point operations a second of a product, by what it is computed in.

    In either, the better of PyTorch's and of oneDNN's, packed or not.
    """
    import torch

    from posenc.models.rates import forms

    torch.set_num_threads(threads)
    rates: dict[str, float] = {}
    with torch.inference_mode():
        for product, x in forms(inputs, outputs, torch.device("cpu")).values():
            rows, times = x.repeat(ROWS // len(x), 1), []  # [rows, inputs]
            for _ in range(20):
                begin = time.perf_counter()
                product(rows)
                times.append(time.perf_counter() - begin)
            kind = str(x.dtype).removeprefix("torch.")
            rate = 2 * ROWS * inputs * outputs / statistics.median(times)
            rates[kind] = max(rates.get(kind, 0.0), rate)
    return rates


class Server:
    """A variant that waits for tasks, with the libraries that it needs imported."""

    def __init__(self, variant: str, family: str, peers: str, place: Path, threads: int) -> None:
        given = [variant, str(place / "model"), str(place / "data.json"), str(threads)]
        if variant in OURS:
            command = [sys.executable, "-m", "tests.benchmarks.ours", *given, family]
        else:
            # Without this folder in its path: profile.py has the name of a module of Python.
            command = [peers, "-P", str(HERE / "peers.py"), *given]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1"},
        )  # fmt: skip

    def run(self, task: str) -> dict[str, float]:
        """Do a task once."""
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{task}\n")
            self.process.stdin.flush()
        if line := self.process.stdout.readline():
            return json.loads(line)
        self.process.wait()
        self.errors.seek(0)
        raise RuntimeError(f"{task}, {self.process.args}: {self.errors.read()[-2000:]}")

    def close(self) -> None:
        """It ends when no more tasks come."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def main(
    documents: Annotated[int, typer.Option(min=2, help="how many")] = 6,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    peers: Annotated[Path, typer.Option(help="folder of the peers' environment")] = Path(
        ".cache/peers"
    ),
    model: Annotated[list[str] | None, typer.Option(help="one of them; may be repeated")] = None,
    task: Annotated[list[str] | None, typer.Option(help="one of them; may be repeated")] = None,
    variant: Annotated[list[str] | None, typer.Option(help="one of them; may be repeated")] = None,
    output: Annotated[Path | None, typer.Option(help="JSON file of all results")] = None,
    show: Annotated[bool, typer.Option("--show", help="in the page on speed")] = False,
    picture: Annotated[Path | None, typer.Option(help="PNG file of the ratios")] = None,
) -> None:
    """Run all variants in turns and print a table in Markdown."""
    variants = list(dict.fromkeys(member for group in TASKS.values() for member in group))
    for given, known in ((model, ALL), (task, TASKS), (variant, variants)):
        if unknown := set(given or ()) - set(known):
            raise typer.BadParameter(f"{', '.join(unknown)}: there are {', '.join(known)}")
    settings = {
        "documents": documents,
        "threads": threads,
        "versions": list(PEERS),
        "processor": processor(),
    }
    record: dict[str, Any] = settings | {"models": {}, "rows": []}
    if output and output.exists():
        record = json.loads(output.read_text())
        if any(record.get(key) != value for key, value in settings.items()):
            raise typer.BadParameter(f"{output} is of a run with other settings: name another")
    python = peers_python(peers.absolute())
    with tqdm(unit="run") as bar:
        for name in model or MODELS:
            wanted = task or (["capture"] if name in OTHERS else list(TASKS))
            for said in runs(record, name, wanted, rounds, python, variant):
                bar.set_description(said)
                bar.update()
                if output:
                    output.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\n{table(record)}")
    if picture:
        draw(record, picture)
    if show:
        pages.show(capture=table(record))


def runs(
    record: dict,
    name: str,
    tasks: list[str],
    rounds: int,
    peers: str,
    variants: list[str] | None = None,
) -> Iterator[str]:
    """Add a model's rounds that a record lacks; say which after each run."""
    threads, rows = record["threads"], {key_of(row): row for row in record["rows"]}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        place = Path(folder)
        facts = make(name, place / "model")
        data = data_of(record["documents"], facts["vocabulary"])
        (place / "data.json").write_text(json.dumps(data))
        facts |= {"tokens": sum(map(len, data["documents"])), "rates": []}
        facts = record["models"].setdefault(name, facts)
        servers: dict[str, Server] = {}
        for number in range(rounds):
            if len(facts["rates"]) <= number:
                facts["rates"].append(product_rates(*facts["widest"], threads))
            for task in tasks:
                for variant in [
                    choice for choice in TASKS[task] if choice in (variants or TASKS[task])
                ]:
                    row = rows.get((name, task, variant))
                    if row is None:
                        row = {"model": name, "task": task, "variant": variant, "runs": []}
                        rows[key_of(row)] = row
                        record["rows"] = in_order(rows.values())
                    if len(row["runs"]) > number:
                        continue
                    if variant not in servers:
                        server = Server(variant, ALL[name][0], peers, place, threads)
                        stack.callback(server.close)
                        servers[variant] = server
                    row["runs"].append(servers[variant].run(task))
                    yield f"{name} {task} {variant}"


def key_of(row: dict) -> tuple[str, str, str]:
    """Model, task and variant."""
    return row["model"], row["task"], row["variant"]


def in_order(rows) -> list[dict]:
    """Rows in a table's order, whatever was run first."""
    order = [(m, t, v) for m in ALL for t in TASKS for v in TASKS[t]]
    return sorted(rows, key=lambda row: order.index(key_of(row)))


def processor() -> str:
    """The processor's name and its instructions for matrix products."""
    name, flags = machines.processor()
    kinds = [kind for kind in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if kind in flags]
    return f"{name or 'unknown'} ({', '.join(kinds)})"


def ratios(record: dict, row: dict, task: str = "", variant: str = "") -> list[float]:
    """How many times as fast as the plain script, or as another row, round by round."""
    wanted = row["model"], task or row["task"], variant or "plain float32"
    base = next(
        (candidate for candidate in record["rows"] if key_of(candidate) == wanted), {"runs": []}
    )
    # A stopped round lacks some of its runs.
    return [a["seconds"] / b["seconds"] for a, b in zip(base["runs"], row["runs"], strict=False)]


def spread(values: list[float]) -> str:
    """Median and range; nothing of nothing."""
    if not values:
        return ""
    return f"{statistics.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]"


def share(facts: dict, row: dict) -> str:
    """A forward pass's operations a second as a share of a product's in that precision."""
    if row["task"] not in FORWARD or not facts["rates"]:
        return ""
    work = facts["blocks"] + (facts["logits"] if row["task"] != "forward" else 0)
    kind = "bfloat16" if row["variant"] in ("plain bfloat16", "ours fast") else "float32"
    rate = statistics.median(rates[kind] for rates in facts["rates"])
    return f"{work / statistics.median(seconds_a_token(row)) / rate:.2f}"


def seconds_a_token(row: dict) -> list[float]:
    """Of each run."""
    return [run["seconds"] / run["tokens"] for run in row["runs"]]


def table(record: dict) -> str:
    """Medians, ratios within each round, and what they cost, in Markdown."""
    rows = [row for row in record["rows"] if row["runs"]]
    said = [
        f"{record['processor']}, {record['threads']} threads, "
        f"{max(len(row['runs']) for row in rows)} rounds"
    ]
    for name, facts in record["models"].items():
        heading = f"{name}, {facts['tokens']:,} tokens in {record['documents']} documents"
        if facts["rates"]:
            rates = " and ".join(
                f"{statistics.median(rates[kind] for rates in facts['rates']) / 1e9:,.0f} GFLOP/s "
                f"in {kind}"
                for kind in ("float32", "bfloat16")
            )
            shape = " x ".join(f"{size:,}" for size in (ROWS, *facts["widest"]))
            heading += f": a product of {shape} by the better library, {rates}"
        said.append(heading)
    lines = [
        ". ".join(said) + ".",
        "",
        "| model | task | variant | times as fast [rounds] | tokens/s | bytes per token | peak MB "
        "| of the rate | value |",
        "| --- " * 9 + "|",
    ]
    for row in rows:
        runs = row["runs"]
        written = runs[0]["bytes"] if row["task"] == "capture" else runs[0].get("kept", 0)
        kept = written / runs[0]["tokens"]
        cells = [
            *key_of(row),
            spread(ratios(record, row)),
            f"{1 / statistics.median(seconds_a_token(row)):,.0f}",
            f"{kept:,.0f}" if kept else "",
            f"{max(run['peak'] for run in runs) / 1e6:,.0f}",
            share(record["models"][row["model"]], row),
            f"{runs[0]['value']:,.4f}" if "value" in runs[0] else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    many = [
        f"{row['model']} {row['variant'].removeprefix('ours ')} "
        f"{spread([1 / ratio for ratio in ratios(record, row, 'one condition', row['variant'])])}"
        for row in rows
        if row["task"] == "thirty conditions"
    ]
    if many:
        lines += ["", f"Thirty conditions take, in times of one: {'; '.join(many)}."]
    lines += ["", "What the project aims at, and what this processor gives:", "", reached(record)]
    return "\n".join(lines) + "\n"


AIMS = [
    ("forward", "ours exact", "of the rate", {"GPT-2": 0.85, "SmolLM2": 0.85}),
    ("forward", "ours fast", "of the rate", {"GPT-2": 0.5, "SmolLM2": 0.5}),
    ("capture", "ours fast", "plain float32", {"GPT-2": 10, "SmolLM2": 6}),
    ("capture", "ours fast", "transformer_lens", {"GPT-2": 13}),
    ("two conditions", "ours fast", "plain float32", {"GPT-2": 9.5}),
    ("perplexity", "ours fast", "plain float32", {"GPT-2": 8.4, "SmolLM2": 6}),
    ("training", "ours fast", "plain float32", {"GPT-2": 2.5, "SmolLM2": 2.5}),
]
"""What the project aims at, by task and variant: a share of the rate, or how many times as fast as
another variant. Aims of ``fast`` are for processors with units for products in bfloat16, where that
has six times the rate of float32."""


def reached(record: dict) -> str:
    """The aims and what was found, in Markdown."""
    rows = {key_of(row): row for row in record["rows"] if row["runs"]}
    lines = ["| task | variant | what | model | aim | found |", "| --- " * 6 + "|"]
    for task, variant, what, models in AIMS:
        for model, goal in models.items():
            row = rows.get((model, task, variant))
            if row is None:
                continue
            if what == "of the rate":
                said, result = what, share(record["models"][model], row)
            else:
                said, result = f"times as fast as {what}", spread(ratios(record, row, task, what))
            lines.append(f"| {task} | {variant} | {said} | {model} | {goal:g} | {result} |")
    return "\n".join(lines)


def draw(record: dict, path: Path) -> None:
    """The ratios as bars, each round a point, a panel for each model."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(record["models"])
    figure = Figure(figsize=(5.5 * len(names), 6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        labels, height, before = [], 0.0, ""
        for row in record["rows"]:
            values, is_ours = ratios(record, row), row["variant"].startswith("ours")
            if row["model"] != name or not values:
                continue
            height += 0.6 if before and before != row["task"] else 0.0
            middle, before = statistics.median(values), row["task"]
            axes.barh(height, middle, 0.8, color="#0072B2" if is_ours else "0.75")
            axes.plot(values, [height] * len(values), "k.", ms=3)
            axes.text(max(values) + 0.1, height, f"{middle:.2f}", va="center", fontsize=8)
            labels.append((height, f"{row['task']}: {row['variant'].replace('_', ' ')}"))
            height += 1
        axes.set_yticks([y for y, _ in labels], [label for _, label in labels], fontsize=8)
        axes.invert_yaxis()
        axes.axvline(1, color="0.3", lw=0.8)
        axes.set_title(name, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(
        "times as fast as the plain library script (bars: medians; points: rounds)", fontsize=9
    )
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    typer.run(main)
