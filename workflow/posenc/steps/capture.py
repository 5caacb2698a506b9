"""Capture a model's runs: hidden states, queries and keys into shards; losses of a decoder.

A killed capture goes on with the shards that it has finished, and a run that is current is kept.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from tqdm import tqdm

from posenc.artifacts.activations import OfModel, Sizes
from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, write_json
from posenc.artifacts.precision import SAMPLE_TOKENS, Precision, StatesError
from posenc.artifacts.shards import ShardFile
from posenc.capture.runs import Job, Run, is_finished, runs_of, write_shard
from posenc.capture.section import Activations
from posenc.models.devices import tokens_at_once, wait_for
from posenc.tokens.packing import packs_of

if TYPE_CHECKING:
    from posenc.capture.capture import Shape


def main(
    model: Annotated[str, typer.Option(help="its name")],
    config: Annotated[Path, typer.Option(help="data/config/capture/MODEL.json")],
    weights: Annotated[Path, typer.Option(help="folder of the model")],
    tokens: Annotated[Path, typer.Option(help="folder of its tokens")],
    output: Annotated[Path, typer.Option(help="folder of its stores")],
    part: Annotated[str, typer.Option(help="I-of-N: every N-th shard, from the I-th")] = "1-of-1",
    done: Annotated[Path | None, typer.Option(help="says that the part is captured")] = None,
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Write the shards of all runs of a model that are not current."""
    job = read_section(config, Job)
    number, parts = map(int, part.split("-of-"))
    todo = [run for run in runs_of(job, model, weights, tokens, output) if not run.is_current()]
    if todo:
        capture(job, todo, weights, number - 1, parts, threads)
    if done:
        write_json(done, {"captured": [run.name for run in todo]})


def capture(job: Job, runs: list[Run], weights: Path, part: int, parts: int, threads: int) -> None:
    """Capture every ``parts``-th shard of runs, those that are finished already left out."""
    # Not before it is known that there is something to capture: they take seconds to import.
    from posenc.architectures.float32 import exactly_if
    from posenc.capture.capture import Shape
    from posenc.capture.interventions import applied, check_conditions
    from posenc.models.affine import load_ready

    is_fast = job.activations.precision == "fast"
    network = load_ready(weights, job.reading.family, job.activations.device, threads, is_fast)
    shape = Shape.of(network)
    todo = [
        (run, number, documents)
        for run in runs
        for number, documents in enumerate(run.tokens.shards(job.activations.shard_tokens))
        if number % parts == part and not is_finished(run.partial, number)
    ]
    check_conditions(network, {run.condition: run.intervention for run, _, _ in todo})
    total = sum(int(run.tokens.lengths[documents].sum()) for run, _, documents in todo)
    size = job.activations.bytes_per_token(shape.n_layers, shape.d_model)
    check_space(runs[0].partial.parent, total, size)
    errors = computed_in(network, job, list({run.name: run for run, _, _ in todo}.values()))
    if todo:
        rate = tokens_per_second(
            network, todo[0][0], tokens_at_once(network, job.activations.batch_tokens)
        )
        print(f"about {total / rate:,.0f} s at {rate:,.0f} tokens per second", file=sys.stderr)
    # Weights of fewer bits whose errors were not measured are those of `exact`.
    exactly = all(error["mode"] == "exact" for error in errors.values())
    with exactly_if(exactly, network), tqdm(total=total, unit="token", mininterval=5) as bar:
        for run, number, documents in todo:
            bar.set_description(run.name)
            with applied(network, run.intervention):
                write_shard(
                    run.partial,
                    number,
                    tensors_of(shape, job.activations, int(run.tokens.lengths[documents].sum())),
                    functools.partial(_fill, network, run, job.activations, documents, bar),
                    _of_model(network, run, shape.as_json(), errors[run.name]),
                )


def _of_model(network, run: Run, sizes: Sizes, precision: Precision) -> OfModel:
    """What the receipt of a shard says of the model."""
    from posenc.capture.parts import architecture

    of_model: OfModel = {**sizes, "precision": precision}
    reason = architecture(network).unlike_queries_and_keys(int(run.tokens.lengths.max()))
    return of_model if reason is None else {**of_model, "not_rebuilt": reason}


def computed_in(network, job: Job, runs: list[Run]) -> dict[str, Precision]:
    """Let the model compute as the parameters say; returns the precision of each run, by name.

    A fast run is compared with float32 on its first documents, under its condition. Where bfloat16
    is slower than float32, the model goes on in float32.
    """
    from posenc.models.rates import is_quicker_in_bfloat16

    if job.activations.precision == "exact" or not (runs and is_quicker_in_bfloat16(network)):
        return {run.name: {"mode": "exact"} for run in runs}
    from posenc.architectures.float32 import in_float32
    from posenc.capture.fast import Sample, faster
    from posenc.capture.interventions import applied

    def samples() -> Iterator[Sample]:
        for capture_run in runs:
            text = capture_run.tokens
            pack = next(packs_of(text.lengths, range(len(text.ids)), SAMPLE_TOKENS))
            with applied(network, capture_run.intervention):
                yield Sample.of(network, [text.ids[index] for index in pack.documents])

    with in_float32(network):
        exact = list(samples())
    faster(network)
    precisions: dict[str, Precision] = {}
    for capture_run, ours, reference in zip(runs, samples(), exact, strict=True):
        error = ours.error(reference)
        precisions[capture_run.name] = {"mode": "fast", **error}
        print(f"{capture_run.name} in bfloat16: {said(error)}", file=sys.stderr)
    return precisions


def said(error: StatesError) -> str:
    """The error of a fast run, in a line."""
    line = (
        f"last hidden state off by {error['relative_error'][-1]:.1e} of its norm, 1 - cosine "
        f"{error['one_minus_cosine'][-1]:.1e}"
    )
    if "nll_difference" in error:
        line += f", {error['nll_difference']:+.1e} nats per token (sd {error['nll_sd']:.1e})"
    return f"{line} ({error['tokens']} tokens)"


def tensors_of(
    shape: Shape, activations: Activations, tokens: int
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Types and shapes of a shard's tensors."""
    sizes = shape.sizes(tokens)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {"token_ids": ("int32", (tokens,))}
    for name in activations.quantities:
        tensors[name] = (activations.dtype, sizes[name])
    # Bytes last, so that every tensor begins at a multiple of its type's size.
    tensors["special_mask"] = ("bool", (tokens,))
    return tensors


def _fill(network, run: Run, activations: Activations, documents: range, bar, file: ShardFile):
    """Capture documents into a shard; returns their losses."""
    from posenc.capture.capture import capture as captured

    lengths = run.tokens.lengths
    begins = dict(zip(documents, np.cumsum(lengths[documents]) - lengths[documents], strict=True))

    def write(pack, arrays) -> None:
        for name, array in arrays.items():
            file.write(name, int(begins[pack.documents[0]]), array)

    rows = run.tokens.table.slice(documents.start, len(documents))
    for name, column in (("token_ids", "input_ids"), ("special_mask", "special")):
        flat = rows[column].combine_chunks().flatten()  # [tokens]
        file.write(name, 0, flat.to_numpy(zero_copy_only=False))
    packs = list(packs_of(lengths, documents, tokens_at_once(network, activations.batch_tokens)))
    losses = captured(network, run.tokens.ids, packs, activations, write, bar)
    return [losses[document] for document in documents if document in losses]


def tokens_per_second(network, run: Run, batch_tokens: int) -> float:
    """How fast the model runs, by one forward pass after another that is not timed."""
    from posenc.capture.capture import packed_states

    text, device = run.tokens, next(network.parameters()).device
    pack = next(packs_of(text.lengths, range(len(text.ids)), batch_tokens))
    for _ in range(2):
        begin = time.perf_counter()
        packed_states(network, [text.ids[index] for index in pack.documents])
        wait_for(device)
        seconds = time.perf_counter() - begin
    return pack.tokens / seconds


def check_space(folder: Path, tokens: int, bytes_per_token: int) -> None:
    """Say how much a capture will write, and refuse one that does not fit the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = tokens * bytes_per_token, shutil.disk_usage(folder).free
    line = f"{tokens:,} tokens x {bytes_per_token:,} bytes = {needed / 1e9:.2f} GB"
    if needed > free:
        raise ArtifactError(
            f"{line} do not fit: {free / 1e9:.2f} GB are free in {folder}; "
            f"lower evaluation.documents or activations.quantities in params.yaml"
        )
    print(f"{line} ({free / 1e9:.2f} GB free)", file=sys.stderr)


if __name__ == "__main__":
    run(main)
