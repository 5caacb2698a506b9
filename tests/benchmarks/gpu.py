"""Forward, capture, evaluations, fits and training on a GPU: ``python -m tests.benchmarks.gpu``.

GPT-2 of the published sizes and SmolLM2's shapes, random weights, documents of random tokens with
lengths like those of reviews. Rates are shares of the card's own product of bfloat16 matrices and
of its disk's own writing, measured in the same run; ratios are to what the library's documentation
suggests: batches of 8 documents, padded, in float32, on the same card.
"""

from __future__ import annotations

import functools
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from tqdm import tqdm

from posenc.artifacts.command import collect_rarely
from posenc.models.affine import load_ready
from posenc.models.devices import PASSES_AT_ONCE
from tests.benchmarks import pages
from tests.benchmarks.models import MODELS, documents_of, make
from tests.benchmarks.ours import Ours, fitting
from tests.benchmarks.peers import Library

TOKENS = 2048 * PASSES_AT_ONCE["cuda"]
SHARD = 2**30
"""Bytes that are written to learn how fast the disk is."""
DAY = 86_400
NETWORK = 100e9 / 8
"""Bytes a second of 100 Gb/s, the unit in which the page on speed counts networks."""


def seconds_of(call: Callable[[], object]) -> float:
    """Wall time until the GPU is done."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def product_rate(dtype: torch.dtype, size: int = 8192) -> float:
    """Operations a second of a product of two square matrices."""
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    times = [seconds_of(lambda: a @ b) for _ in range(10)]
    return 2 * size**3 / statistics.median(times)


def disk_rate(folder: Path) -> float:
    """Bytes a second that one thread writes to this disk, without waiting for it."""
    data = np.random.default_rng(0).bytes(SHARD // 8)
    begin = time.perf_counter()
    with open(folder / "disk", "wb") as file:
        for _ in range(8):
            file.write(data)
    seconds = time.perf_counter() - begin
    (folder / "disk").unlink()
    return SHARD / seconds


def once_or_more(implementation: Library | Ours, task: str, texts, rounds: int) -> dict:
    """Seconds of a task over all documents, after a few."""
    call, texts = getattr(implementation, task), texts[: most(implementation)]
    told = call(texts[:64]) or {}
    torch.cuda.reset_peak_memory_stats()
    times = [seconds_of(functools.partial(call, texts)) for _ in range(rounds)]
    return {
        "task": task, "seconds": times, "tokens": sum(map(len, texts)), "value": told.get("value"),
        "peak": torch.cuda.max_memory_allocated(),
    }  # fmt: skip


def most(implementation: Library | Ours) -> int:
    """Documents it is given: the library is slow."""
    return 128 if isinstance(implementation, Library) else 512


def forwards(implementation: Library | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """Hidden states alone, which nothing keeps."""
    return [once_or_more(implementation, "forward", texts, rounds)]


def perplexities(implementation: Library | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """Losses of all tokens."""
    return [once_or_more(implementation, "perplexity", texts, rounds)]


def captures(implementation: Library | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """Hidden states, queries and keys to the disk."""
    few, times = texts[: most(implementation) // 4], []
    implementation.capture(few[:8], fresh(folder))
    for _ in range(rounds):
        into = fresh(folder)
        times.append(seconds_of(functools.partial(implementation.capture, few, into)))
    written = sum(file.stat().st_size for file in into.iterdir())
    return [{"task": "capture", "seconds": times, "tokens": sum(map(len, few)), "written": written}]


def evaluations(implementation: Library | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """One condition, and thirty in the same pass, beside the intact model; no peer does it."""
    if isinstance(implementation, Library):
        return []
    few, rows = texts[:64], []
    for number in (1, 30):
        implementation.conditions(number, few[:16])
        seconds = seconds_of(functools.partial(implementation.conditions, number, few))
        rows.append(
            {"task": f"{number} conditions", "seconds": [seconds], "tokens": sum(map(len, few))}
        )
    return rows


MEASURED = {
    "forward": forwards, "perplexity": perplexities, "capture": captures, "conditions": evaluations
}  # fmt: skip


def main(
    documents: Annotated[int, typer.Option(help="how many")] = 512,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    output: Annotated[Path | None, typer.Option(help="JSON file of all results")] = None,
    show: Annotated[bool, typer.Option("--show", help="in the page on speed")] = False,
    limit: Annotated[float, typer.Option(help="seconds after which no more is begun")] = 200,
) -> None:
    """Measure all, in turns, and print a table in Markdown."""
    collect_rarely()
    began, record = time.perf_counter(), {"rows": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        record |= {
            "card": torch.cuda.get_device_name(), "torch": torch.__version__, "tokens": TOKENS,
            "bfloat16": product_rate(torch.bfloat16), "float32": product_rate(torch.float32),
            "disk": disk_rate(folder), "documents": documents,
        }  # fmt: skip
        print(json.dumps({k: v for k, v in record.items() if k != "rows"}), file=sys.stderr)
        for name, (family, _) in MODELS.items():
            facts = make(name, folder / name)
            work = facts["blocks"]
            texts = documents_of(documents, facts["vocabulary"])
            variants = {
                "plain float32": Library(folder / name, device="cuda"),
                "plain bfloat16": Library(folder / name, torch.bfloat16, device="cuda"),
                "ours exact": Ours(folder / name, family, False, "cuda", TOKENS),
                "ours fast": Ours(folder / name, family, True, "cuda", TOKENS),
            }
            for task in MEASURED:
                for variant, implementation in variants.items():
                    if time.perf_counter() - began < limit:
                        for row in MEASURED[task](implementation, texts, folder, rounds):
                            add(record, row | {"model": name, "variant": variant, "work": work})
                save(record, output)
            del variants
            torch.cuda.empty_cache()
            if time.perf_counter() - began < limit:
                model = load_ready(folder / name, family, "cuda", torch.get_num_threads())
                fit = fitting(model, texts[:160], "bfloat16", steps=20, batch=8)
                row = {"task": "fit, a step", "seconds": [fit["seconds"]], "tokens": fit["tokens"]}
                add(record, row | {"model": name, "variant": "ours", "work": 3 * work})
            save(record, output)
    print(table(record), end="")
    if show:
        pages.show(gpu=table(record), scale=scale(record))


def fresh(folder: Path) -> Path:
    """An empty folder."""
    into = folder / "captured"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    return into


def add(record: dict, row: dict) -> None:
    """A row, said at once."""
    record["rows"].append(row)
    tqdm.write(json.dumps(row), file=sys.stderr)


def save(record: dict, output: Path | None) -> None:
    """The record so far."""
    if output:
        output.write_text(json.dumps(record, indent=1) + "\n")


def table(record: dict) -> str:
    """Medians and ratios, in Markdown."""
    rows, best = record["rows"], {}
    for row in rows:
        if row["variant"] == "plain float32":
            best[row["model"], row["task"]] = row["tokens"] / statistics.median(row["seconds"])
    lines = [
        f"{record['card']}, torch {record['torch']}; a product of bfloat16 matrices of 8,192 rows: "
        f"{record['bfloat16'] / 1e12:.0f} TFLOP/s, of float32: {record['float32'] / 1e12:.0f}; "
        f"writing to the disk: {record['disk'] / 1e9:.1f} GB/s",
        "",
        "| model | task | variant | tokens/s | times as fast | of the bfloat16 rate | GB/s to disk "
        "| peak GB |",
        "| --- " * 8 + "|",
    ]
    for row in rows:
        seconds = statistics.median(row["seconds"])
        key = row["model"], row["task"]
        ratio = f"{row['tokens'] / seconds / best[key]:.1f}" if key in best else ""
        share = row["work"] * row["tokens"] / seconds / record["bfloat16"]
        is_product = row["task"] in ("forward", "fit, a step")
        cells = [
            row["model"], row["task"], row["variant"], f"{row['tokens'] / seconds:,.0f}", ratio,
            f"{share:.2f}" if is_product else "",
            f"{row['written'] / seconds / 1e9:.2f}" if "written" in row else "",
            f"{row['peak'] / 1e9:.1f}" if "peak" in row else "",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def scale(record: dict) -> str:
    """What a day or a thousand GPUs would do at the measured rates, in Markdown."""
    rows = {
        (row["model"], row["task"]): row for row in record["rows"] if row["variant"] == "ours fast"
    }
    lines = [
        "| model | task | tokens per day | bytes per token | TB per day | of the forward pass "
        "| a thousand: tokens per day | a thousand: GB/s | GPUs that 100 Gb/s serve |",
        "| --- " * 9 + "|",
    ]
    for (model, task), row in rows.items():
        if task == "forward":
            continue
        rate, size = tokens_a_second(row), bytes_a_token(row)
        cells = [
            model, task, f"{rate * DAY:.1e}", f"{size:,.0f}", f"{rate * size * DAY / 1e12:,.2f}",
            f"{rate / tokens_a_second(rows[model, 'forward']):.3f}", f"{1000 * rate * DAY:.1e}",
            f"{1000 * rate * size / 1e9:,.1f}", f"{NETWORK / (rate * size):,.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def tokens_a_second(row: dict) -> float:
    """By the median of the rounds."""
    return row["tokens"] / statistics.median(row["seconds"])


def bytes_a_token(row: dict) -> float:
    """What a token leaves on the disk: activations, or a float32 loss under each condition."""
    if "written" in row:
        return row["written"] / row["tokens"]
    number, _, of = row["task"].partition(" ")
    return 4 * (1 + int(number)) if of == "conditions" else 4  # the intact model beside them


if __name__ == "__main__":
    typer.run(main)
