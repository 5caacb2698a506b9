"""What this project does with the same documents: ``capture.py`` runs it for one line of JSON."""

from __future__ import annotations

import functools
import json
import math
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from posenc.capture import capture
from posenc.capture.evaluation import INTACT, evaluate
from posenc.capture.fast import faster
from posenc.capture.section import Activations
from posenc.conditions.section import Condition
from posenc.models.affine import ready
from posenc.models.load import load
from posenc.steps.capture import tensors_of
from posenc.store.shards import ShardFile
from posenc.tokens.packing import packs_of

TOKENS = {"capture": 1024, "perplexity": 1024, "two conditions": 2048, "forward": 1024}
"""Tokens of a forward pass; half as many in captures in float32, which are no slower so."""


def captured(model, documents, packs, lengths, output: Path) -> None:
    """All activations into one shard, as the step does."""
    parameters = Activations(
        quantities=["hidden_states", "queries", "keys"], dtype="float16", precision="exact",
        device="cpu", batch_tokens=1024, shard_tokens=100_000_000,
    )  # fmt: skip
    tensors = tensors_of(capture.Shape.of(model), parameters, int(lengths.sum()))
    begins = np.cumsum(lengths) - lengths
    with ShardFile(output / "shard", tensors) as file:

        def write(pack, arrays) -> None:
            for name, array in arrays.items():
                file.write(name, int(begins[pack.documents[0]]), array)

        capture.capture(model, documents, packs, parameters, write)


def perplexity(model, documents, packs) -> float:
    """Perplexity of all documents."""
    sums, scored = 0.0, 0
    for pack in packs:
        some = [documents[index] for index in pack.documents]
        last = capture.packed_last(model, some)[0]
        for nll in capture.document_losses(model, last, some):
            sums, scored = sums + float(nll.sum()), scored + len(nll)
    return math.exp(sums / scored)


def two_conditions(model, documents) -> int:
    """Losses and cosines of two conditions side by side; returns the bytes that are kept."""
    kept = 0
    counted = [[True] * len(ids) for ids in documents]
    conditions = {"intact": INTACT, "zero": Condition(position="zero")}
    for _, outcome in evaluate(model, documents, counted, conditions, {}, TOKENS["two conditions"]):
        kept += outcome.nll.nbytes + outcome.cosine.nbytes
    return kept


def main(task: str, variant: str, folder: Path, path: Path, output: Path) -> None:
    """Run one task once, after a small one."""
    documents = json.loads(path.read_text())
    lengths = np.array(list(map(len, documents)))
    budget = TOKENS[task] // 2 if (task, variant) == ("capture", "ours exact") else TOKENS[task]
    packs = list(packs_of(lengths, range(len(documents)), budget))
    model = ready(load(folder, "gpt2"))
    if variant == "ours fast":
        faster(model)
    capture.packed_states(model, documents[:2])
    report: dict[str, float] = {}
    begin = time.perf_counter()
    if task == "capture":
        captured(model, documents, packs, lengths, output)
    elif task == "perplexity":
        report["value"] = perplexity(model, documents, packs)
    elif task == "two conditions":
        report["kept"] = two_conditions(model, documents)
    else:
        for pack in packs:
            capture.packed_states(model, [documents[index] for index in pack.documents])
    report["seconds"] = time.perf_counter() - begin
    report["bytes"] = sum(file.stat().st_size for file in output.rglob("*"))
    report["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(report))


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[6]))
    tqdm.__init__ = functools.partialmethod(tqdm.__init__, disable=True)
    with torch.inference_mode():
        main(*sys.argv[1:3], *map(Path, sys.argv[3:6]))
