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
    report(found, tokens, statistics.median(rates), threads)
    if output:
        rows = [{"task": t, "variant": v, "runs": one} for (t, v), one in found.items()]
        facts = {"tokens": tokens, "documents": documents, "threads": threads, "rates": rates}
        output.write_text(json.dumps({**facts, "rows": rows}, indent=1))


def report(found: dict, tokens: int, rate: float, threads: int) -> None:
    """Print medians, ratios within each round, and what they cost."""
    print(f"\n{tokens:,} tokens, {threads} threads; a float32 product: {rate / 1e9:.0f} GFLOP/s\n")
    print("| task | variant | ratio [rounds] | tokens/s | bytes a token | peak MB | of the rate |")
    print("| --- " * 7 + "|")
    for (task, variant), runs in found.items():
        plain = found[task, "plain float32"]
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(plain, runs, strict=True)]
        seconds = statistics.median(one["seconds"] for one in runs)
        kept = runs[0].get("kept", runs[0]["bytes"])
        share = f"{tokens * LINEAR / seconds / rate:.2f}" if task == "forward" else ""
        spread = f"[{min(ratios):.2f}, {max(ratios):.2f}]"
        print(
            f"| {task} | {variant} | {statistics.median(ratios):.2f} {spread} "
            f"| {tokens / seconds:.0f} | {kept / tokens:,.0f} "
            f"| {max(one['peak'] for one in runs) / 1e6:,.0f} | {share} |"
        )


if __name__ == "__main__":
    typer.run(main)
