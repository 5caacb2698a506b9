"""Capture, perplexity and two conditions against others, as ratios within one run.

``python -m tests.benchmarks.capture`` runs every variant in a process of its own, in turns, on the
same documents and a GPT-2 of the published sizes with random weights, and prints medians, ratios
against the plain library script, bytes a token, peak memory, and the share of the machine's rate of
matrix products. TransformerLens and nnsight are installed beside, in a folder that can be kept.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from tqdm import tqdm

from posenc.report import comparison

HERE = Path(__file__).parent
PEERS = ("torch==2.13.0", "transformer-lens==4.3.0", "nnsight==0.8.1")
VARIANTS = {
    "capture": (
        "plain float32", "plain bfloat16", "transformer_lens", "nnsight", "ours exact", "ours fast",
    ),
    "two conditions": ("plain float32", "ours exact", "ours fast"),
    "perplexity": ("plain float32", "one by one", "ours exact", "ours fast"),
    "forward": ("plain float32", "ours exact", "ours fast"),
}  # fmt: skip
BEGIN, END = "<!-- table -->", "<!-- end -->"
LINEAR = 12 * 12 * 768**2 * 2
"""Floating-point operations of GPT-2's matrix products a token, attention and logits left out."""


def make_model(folder: Path) -> None:
    """GPT-2 of the published sizes, random weights."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config()).save_pretrained(folder)


def make_documents(path: Path, number: int, seed: int = 0) -> int:
    """Documents of random tokens with lengths like those of reviews; returns their tokens."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(np.log(220), 0.65, number), 32, 512).astype(int)
    path.write_text(json.dumps([rng.integers(0, 50257, n).tolist() for n in lengths]))
    return int(lengths.sum())


def peers_python(folder: Path) -> str:
    """A Python that has the peers, installed on first use."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return str(python)


def matrix_rate(threads: int) -> float:
    """Floating-point operations a second of a float32 product of GPT-2's widest layer."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.randn(1024, 768), torch.randn(768, 3072)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - begin)
    return 2 * 1024 * 768 * 3072 / statistics.median(times)


def run(task: str, variant: str, peers: str, place: Path, threads: int) -> dict[str, float]:
    """One process, one line of JSON."""
    with tempfile.TemporaryDirectory(dir=place) as output:
        given = [str(place / "model"), str(place / "documents.json"), output, str(threads)]
        if variant.startswith("ours"):
            command = [sys.executable, "-m", "tests.benchmarks.ours", task, variant, *given]
        else:
            command = [peers, str(HERE / "peers.py"), task, variant, *given]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{task}, {variant}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(
    documents: Annotated[int, typer.Option(help="how many")] = 48,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    peers: Annotated[Path, typer.Option(help="folder of the peers' environment")] = Path(
        ".cache/peers"
    ),
    tasks: Annotated[list[str] | None, typer.Option(help="some of them")] = None,
    output: Annotated[Path | None, typer.Option(help="JSON file of all results")] = None,
    picture: Annotated[Path | None, typer.Option(help="PNG file of the ratios")] = None,
    page: Annotated[Path | None, typer.Option(help="page whose table is made anew")] = None,
) -> None:
    """Run all variants in turns and print a table in Markdown."""
    python = peers_python(peers.absolute())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_model(place / "model")
        tokens = make_documents(place / "documents.json", documents)
        jobs = [(t, v) for t in tasks or VARIANTS for v in VARIANTS[t]]
        found: dict[tuple[str, str], list[dict]] = {job: [] for job in jobs}
        rates = []
        with tqdm(total=rounds * len(jobs), unit="run") as bar:
            for _ in range(rounds):
                rates.append(matrix_rate(threads))
                for job in jobs:
                    bar.set_description(" ".join(job))
                    found[job].append(run(*job, python, place, threads))
                    bar.update()
    record = {
        "tokens": tokens, "documents": documents, "threads": threads, "rates": rates,
        "versions": list(PEERS), "processor": processor(),
        "rows": [{"task": t, "variant": v, "runs": one} for (t, v), one in found.items()],
    }  # fmt: skip
    print(f"\n{table(record)}")
    if output:
        output.write_text(json.dumps(record, indent=1) + "\n")
    if picture:
        draw(record, picture)
    if page:
        page.write_text(filled(page.read_text(), record))


def filled(text: str, record: dict) -> str:
    """A page with the table of a record between its marks."""
    return put_between(text, BEGIN, END, table(record))


def put_between(text: str, begin: str, end: str, content: str) -> str:
    """A text with other lines between two marks, which must be there."""
    first, last = text.index(begin) + len(begin), text.index(end)
    return f"{text[:first]}\n{content}{text[last:]}"


def processor() -> str:
    """The processor's name and what it has for products of matrices."""
    name, flags = comparison.processor()
    kinds = [kind for kind in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if kind in flags]
    return f"{name or 'unknown'} ({', '.join(kinds)})"


def ratios(record: dict, row: dict) -> list[float]:
    """How many times as fast as the plain script, round by round."""
    first = (r for r in record["rows"] if r["task"] == row["task"])
    plain = next(r for r in first if r["variant"] == "plain float32")
    return [a["seconds"] / b["seconds"] for a, b in zip(plain["runs"], row["runs"], strict=True)]


def table(record: dict) -> str:
    """Medians, ratios within each round, and what they cost, in Markdown."""
    tokens, rate = record["tokens"], statistics.median(record["rates"])
    lines = [
        f"{tokens:,} tokens in {record['documents']} documents, {record['threads']} threads, "
        f"{len(record['rates'])} rounds; {record['processor']}; "
        f"a float32 product by PyTorch: {rate / 1e9:.0f} GFLOP/s",
        "",
        "| task | variant | times as fast [rounds] | tokens/s | bytes a token | peak MB "
        "| of the rate |",
        "| --- " * 7 + "|",
    ]  # fmt: skip
    for row in record["rows"]:
        found, runs = ratios(record, row), row["runs"]
        seconds = statistics.median(one["seconds"] for one in runs)
        written = runs[0]["bytes"] if row["task"] == "capture" else 0
        kept = runs[0].get("kept", written) / tokens
        is_forward = row["task"] == "forward"
        share = f"{tokens * LINEAR / seconds / rate:.2f}" if is_forward else ""
        lines.append(
            f"| {row['task']} | {row['variant']} | {statistics.median(found):.2f} "
            f"[{min(found):.2f}, {max(found):.2f}] | {tokens / seconds:,.0f} "
            f"| {f'{kept:,.0f}' if kept else ''} "
            f"| {max(one['peak'] for one in runs) / 1e6:,.0f} | {share} |"
        )
    return "\n".join(lines) + "\n"


def draw(record: dict, path: Path) -> None:
    """The ratios as bars, each round a point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    labels, height = [], 0.0
    tasks = list(dict.fromkeys(row["task"] for row in record["rows"]))
    for task in tasks:
        for row in (row for row in record["rows"] if row["task"] == task):
            found, is_ours = ratios(record, row), row["variant"].startswith("ours")
            middle = statistics.median(found)
            axes.barh(height, middle, 0.8, color="#0072B2" if is_ours else "0.75")
            axes.plot(found, [height] * len(found), "k.", ms=3)
            axes.text(max(found) + 0.1, height, f"{middle:.2f}", va="center", fontsize=8)
            labels.append((height, f"{task}: {row['variant'].replace('_', ' ')}"))
            height += 1
        height += 0.6
    axes.set_yticks([y for y, _ in labels], [name for _, name in labels], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="0.3", lw=0.8)
    axes.set_xlabel("times as fast as the plain library script (bars: medians; points: rounds)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    typer.run(main)
