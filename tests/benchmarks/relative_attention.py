"""The decomposition of attention heads by QR against that of the whole matrix.

``python -m tests.benchmarks.relative_attention`` takes random heads of the published sizes of
BERT-base (12 layers of 12 heads, d_model 768, d_head 64, 512 positions), and prints the processor's
seconds of the whole analysis, of its decompositions, and of the direct decompositions, of which it
makes a few and counts as many as there are heads.
"""

from __future__ import annotations

import functools
import statistics
import time
from typing import Annotated

import numpy as np
import typer

from posenc.metrics.head_offsets import head_offsets
from posenc.metrics.relative_attention import head_factors

LAYERS, HEADS, D_MODEL, D_HEAD, POSITIONS = 12, 12, 768, 64, 512


def seconds(function, *arguments) -> float:
    """Seconds of the processor, so that what else runs does not count."""
    began = time.process_time()
    function(*arguments)
    return time.process_time() - began


def direct(query: np.ndarray, key: np.ndarray) -> None:
    """Singular value decomposition of one head's W^Q W^Kᵀ, [d_model + 1, d_model + 1]."""
    np.linalg.svd(query @ key.T)


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    heads: Annotated[int, typer.Option(min=1, help="direct decompositions of a round")] = 2,
) -> None:
    """Print a table, in Markdown; ratios are within a round."""
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, HEADS, D_MODEL + 1, D_HEAD))  # of one layer
    x = rng.normal(size=(POSITIONS, D_MODEL + 1))
    durations: dict[str, list[float]] = {"analysis": [], "decompositions": [], "direct": []}
    for _ in range(rounds):
        analysis = functools.partial(head_offsets, x, query, key, 10, causal=False)
        durations["analysis"].append(LAYERS * seconds(analysis))
        durations["decompositions"].append(LAYERS * seconds(head_factors, query, key))
        per_head = statistics.median(seconds(direct, query[n], key[n]) for n in range(heads))
        durations["direct"].append(LAYERS * HEADS * per_head)
    print("| of 144 heads | seconds | direct decompositions take, times as long [rounds] |")
    print("| --- | --- | --- |")
    for name, times in durations.items():
        ratios = [a / b for a, b in zip(durations["direct"], times, strict=True)]
        print(
            f"| {name} | {statistics.median(times):.1f} | {statistics.median(ratios):.1f} "
            f"[{min(ratios):.1f}, {max(ratios):.1f}] |"
        )


if __name__ == "__main__":
    typer.run(main)
