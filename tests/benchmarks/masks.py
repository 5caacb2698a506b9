"""What a mask in closed form costs against one that is fitted, as a ratio within one run.

``python -m tests.benchmarks.masks`` makes masks of SmolLM2 in closed form from 4, 16 and 64
documents, takes a few steps of a fit, and writes docs/masks-benchmark.json and the table of the
page on rotation. Documents are generated reviews, joined and cut to lengths like those of IMDB's. A
fit is as many steps as ``params.yaml`` says, at the seconds per token, padding included, of those
that are timed: the evaluations that choose among its steps are left out, in its favour. Seconds are
the processor's, on one thread, so that what else runs does not count.
"""

from __future__ import annotations

import functools
import itertools
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import nn
from tqdm import tqdm

from posenc.capture.calibration import Calibration
from posenc.capture.closed_form import closed_form, drawn
from posenc.capture.mask_fitting import fit
from posenc.conditions.masks import ClosedFormMask, FittedMask
from posenc.datasets.generated.reviews import review
from posenc.report.machines import described, machine
from posenc.study import params
from tests.benchmarks import pages
from tests.benchmarks.models import documents_of, fetch_smollm2
from tests.benchmarks.ours import Ours
from tests.benchmarks.peers import apart
from tests.benchmarks.savings import shown
from tests.copies import ROOT

RECORD = ROOT / "docs/masks-benchmark.json"
CLOSED = ("closed_4", "closed_16", "closed_64")
FITTED = "fitted_zero_short"
"""Names in the ``masks`` of ``params.yaml``."""
FITTING = 150
"""Documents that masks are learned from."""


def texts(folder: Path, count: int) -> list[list[int]]:
    """Generated reviews as token ids, joined end to end and cut to lengths like those of IMDB's."""
    from tokenizers import Tokenizer

    tokenizer, rng = Tokenizer.from_file(str(folder / "tokenizer.json")), random.Random(0)
    stream = itertools.chain.from_iterable(
        tokenizer.encode(review(rng, rng.randint(1, 10))).ids for _ in itertools.count()
    )
    return [list(itertools.islice(stream, len(ids))) for ids in documents_of(count, 2)]


def round_of(
    model: nn.Module, documents: list[list[int]], closed: dict[str, ClosedFormMask],
    fitted: FittedMask, steps: int, seed: int,
) -> dict[str, float]:  # fmt: skip
    """Seconds of each closed-form mask, and of all steps of the fit, by some after the first.

    Parameters
    ----------
    seed
        Of the order of documents in the steps that are timed: batches are of many lengths.
    """
    # No evaluation is timed: one document replaces those that choose.
    data = functools.partial(Calibration, model, documents, [min(documents, key=len)], 2048)
    seconds = {}
    for name, source in closed.items():
        begin = time.process_time()
        closed_form(source, data())
        seconds[name] = time.process_time() - begin
    ticks: list[float] = []
    changes = {"steps": steps + 1, "validate_steps": steps + 1, "seed": seed}
    short = fitted.model_copy(update=changes)
    fit(short, data(), lambda _: ticks.append(time.process_time()))
    rate = (ticks[-1] - ticks[0]) / padded(batches(short, documents)[1:])
    return {**seconds, FITTED: rate * padded(batches(fitted, documents))}


def batches(fitted: FittedMask, documents: list[list[int]]) -> list[list[list[int]]]:
    """Documents of each step, in the order in which the fit draws them."""
    generator, size = np.random.default_rng(fitted.seed), fitted.batch_documents
    order: list[int] = []
    while len(order) < fitted.steps * size:
        order += generator.permutation(len(documents)).tolist()
    return [
        [documents[index] for index in order[step * size : (step + 1) * size]]
        for step in range(fitted.steps)
    ]


def padded(steps: list[list[list[int]]]) -> int:
    """Tokens of batches, padding to their longest document included."""
    return sum(len(batch) * max(map(len, batch)) for batch in steps)


def measured(rounds: int, steps: int, count: int) -> dict:
    """What each mask reads and its time, round by round."""
    torch.set_num_threads(1)
    masks = params.load(ROOT / "params.yaml").masks
    closed, fitted = {name: masks[name] for name in CLOSED}, masks[FITTED]
    with tempfile.TemporaryDirectory() as folder:
        fetch_smollm2(Path(folder))
        documents = texts(Path(folder) / "tokenizer", count)
        model = Ours(Path(folder), "llama", fast=False).model
    runs = [
        round_of(model, documents, closed, fitted, steps, seed)
        for seed in tqdm(range(rounds), unit="round")
    ]
    return {"steps": fitted.steps, "masks": facts(closed, fitted, documents), "runs": runs}


def facts(
    closed: dict[str, ClosedFormMask], fitted: FittedMask, documents: list[list[int]]
) -> dict[str, dict[str, int]]:
    """Tokens that each mask reads, and documents that go forward and back."""
    by_mask = {}
    for name, source in closed.items():
        read = drawn(source, Calibration(nn.Identity(), documents, [], 0))
        by_mask[name] = {"tokens": sum(map(len, read)), "forward": len(read), "backward": 0}
    fit_on = list(itertools.chain.from_iterable(batches(fitted, documents)))
    count = len(fit_on)
    by_mask[FITTED] = {"tokens": sum(map(len, fit_on)), "forward": count, "backward": count}
    return by_mask


def ratios(record: dict, name: str) -> list[float]:
    """How many times as long the whole fit takes, round by round."""
    return [run[FITTED] / run[name] for run in record["runs"]]


def table(record: dict) -> str:
    """What each mask takes, in Markdown."""
    lines = [
        f"{described(record['made_on'])}; one thread, {record['rounds']} rounds, in each of which "
        f"{record['timed']} of the {record['steps']} steps of a fit are timed.",
        "",
        "| mask | tokens read | documents forward | backward | seconds | the fit takes, times as "
        "long |",
        "| --- " * 6 + "|",
    ]
    for name, mask in record["masks"].items():
        seconds = statistics.median(run[name] for run in record["runs"])
        ratio = "1" if name == FITTED else shown(ratios(record, name))
        lines.append(
            f"| `{name}` | {mask['tokens']:,} | {mask['forward']} | {mask['backward']} | "
            f"{seconds:,.1f} | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def main(
    rounds: Annotated[int, typer.Option(min=6)] = 6,
    steps: Annotated[int, typer.Option(min=1, help="of the fit, timed in a round")] = 2,
    documents: Annotated[int, typer.Option(min=64)] = FITTING,
    dry: Annotated[bool, typer.Option("--dry", help="print the table alone")] = False,
) -> None:
    """Measure, print the table, and write the record and the page."""
    result = apart(functools.partial(measured, rounds, steps, documents))
    record: dict[str, Any] = {
        "made_on": machine(),
        "rounds": rounds,
        "timed": steps,
        **{key: result[key] for key in ("steps", "masks", "runs")},
    }
    print(f"\n{table(record)}")
    if not dry:
        pages.keep(record, RECORD, masks=table(record))


if __name__ == "__main__":
    typer.run(main)
